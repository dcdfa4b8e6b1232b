#!/bin/bash
# Suspended tasks: off their device, into the host's memory, and back; by a user's command and
# because of the device. On emulated devices.
. "$(dirname "$0")/lib.sh"
emu=$GPUMUX_BUILD/emu/bin
burn=$GPUMUX_BUILD/workloads/gpumux-burn
gib=$((1 << 30))
up() { start --emulate 1xH200:24g --policy firstfit --set monitor_hold_min=2s "$@"; }
# task QUOTA MEMORY [JSON]
task() {
    submit "$(json_with "${3:-"{}"}" devices 1 quota "\"$1\"" command \
        "$(json_words "$burn" --step-ms 20 --memory "$2" --steps 10000000)")"
}
samples() { output "$1" | grep -o 'samples=[0-9]*' | tail -n 1 | cut -d= -f2; }
ran_past() { [ "$(samples "$1")" -gt "$2" ]; }
device_used() { device 0 usage.memory_used_bytes; }
fault() { GPUMUX_EMU=$state/emu/devices "$emu/gpumux-emu-fault" "$@"; }
metric() { api GET /metrics | grep "^$1"; }
healthy() { [ "$(device 0 state)" = healthy ]; }
says_suspended() { [ "$(field "$1" usage.suspended_bytes)" -ge $((2 * gib)) ]; }
up --set mps=off

echo "-- suspended: it lives, and has nothing on its device"
first=$(task 20g 2g)
wait_field "$first" state running
wait_until "it trains" ran_past "$first" 10
pid=$(pgrep -f "^$burn --step-ms 20 --memory 2g --steps 10000000" | head -n 1)
"$gpumux" suspend "$first"
has "$first" state suspended || fail "$(show "$first")"
kill -0 "$pid" || fail "its process is gone"
wait_until "its device is empty" eval '[ "$(device_used)" = 0 ]'
wait_until "its memory is the host's" says_suspended "$first"
has "$first" usage.memory_used_bytes 0 || fail "$(show "$first")"
has "$first" usage.protection.counted_bytes 0 || fail "$(show "$first")"
"$gpumux" ps | grep -E "^ *$first .*suspended" || fail "$("$gpumux" ps)"
"$gpumux" describe "$first" | grep 'suspended in host memory' \
    || fail "$("$gpumux" describe "$first")"
! "$gpumux" describe "$first" | grep ', speed ' || fail "it has a speed that it had"
told 'suspended.*GiB in' "$first" || fail "$("$gpumux" events "$first")"
metric "gpumux_workload_suspended_bytes.*workload=\"$first\"" | grep -qv ' 0$' || fail "no metric"
metric 'gpumux_workloads{state="suspended"} 1' || fail "no metric"
stood=$(samples "$first")

echo "-- what would not fit beside it runs in its place"
second=$(task 20g 3g)
wait_field "$second" state running
wait_until "it trains" ran_past "$second" 10
"$gpumux" resume "$first" 2> "$work/resume"
grep -q "^gpumux: $first waits to resume: the device has too little memory" "$work/resume" \
    || fail "resume says nothing: $(cat "$work/resume")"
wait_until "it says what it waits for" \
    eval '[[ $(field "$first" text) == "waits to resume: the device has too little memory"* ]]'
has "$first" state suspended || fail "$(show "$first")"
[ "$(samples "$first")" = "$stood" ] || fail "it went on"

echo "-- and back on its device, where it goes on"
cancel "$second"
ends "$second" cancelled
wait_field "$first" state running
wait_until "it goes on" ran_past "$first" $((stood + 100))
[ "$(pgrep -f "^$burn --step-ms 20 --memory 2g --steps 10000000" | head -n 1)" = "$pid" ] \
    || fail "another process"
has "$first" attempt 1 || fail "$(show "$first")"
told resumed "$first" || fail "$("$gpumux" events "$first")"
wait_until "its memory is there" eval '[ "$(device_used)" -ge $((2 * gib)) ]'
expect_status 409 POST "/v1/workloads/$first/resume"

echo "-- an agent that comes later finds it suspended, and brings it back"
"$gpumux" suspend "$first"
crash
up --set mps=off
has "$first" state suspended || fail "$(show "$first")"
wait_until "its memory is the host's" says_suspended "$first"
stood=$(samples "$first")
"$gpumux" resume "$first"
wait_field "$first" state running
wait_until "it goes on" ran_past "$first" $((stood + 100))
has "$first" attempt 1 || fail "$(show "$first")"

echo "-- an agent that is killed in between does not leave it there"
api POST "/v1/workloads/$first/suspend" > /dev/null
wait_until "it has begun" eval 'ls "$state"/node/suspended/*.lock'
crash
up --set mps=off
wait_field "$first" state suspended
api POST "/v1/workloads/$first/resume" > /dev/null
wait_until "it comes back" has "$first" state resuming
crash
up --set mps=off
wait_field "$first" state running
stood=$(samples "$first")
wait_until "it goes on" ran_past "$first" $((stood + 100))
has "$first" attempt 1 || fail "$(show "$first")"
wait_until "nothing of it is left" eval '[ -z "$(ls "$state/node/suspended")" ]'

echo "-- a suspended one can be ended"
"$gpumux" suspend "$first"
cancel "$first"
ends "$first" cancelled
! kill -0 "$pid" 2> /dev/null || fail "its process is still there"
wait_until "nothing of it is left" eval '[ -z "$(ls "$state/node/suspended")" ]'

echo "-- a device that must get rid of its tasks suspends them; they come back by themselves"
wait_until "the device is healthy" healthy
id=$(task 8g 2g)
wait_field "$id" state running
wait_until "it trains" ran_past "$id" 10
fault 0 thermal 50
wait_until "it was evicted" told 'suspending.*evicted: its clocks are slowed' "$id"
wait_field "$id" state suspended
wait_until "it says what it waits for" \
    eval '[[ $(field "$id" text) == "waits to resume: the device is overlimit"* ]]'
fault 0 thermal 0
wait_field "$id" state running
stood=$(samples "$id")
wait_until "it goes on" ran_past "$id" $((stood + 100))
has "$id" attempt 1 || fail "$(show "$id")"
cancel "$id"
ends "$id" cancelled

echo "-- one whose device broke meanwhile begins again, where there is one"
wait_until "the device is healthy" healthy
id=$(task 8g 2g)
wait_field "$id" state running
wait_until "it trains" ran_past "$id" 10
"$gpumux" suspend "$id"
fault 0 xid 79
wait_until "the device is out of use" eval '[ "$(device 0 state)" = disabled ]'
has "$id" state suspended || fail "$(show "$id")"
"$gpumux" resume "$id" > /dev/null 2>&1 &
wait_until "it waits for any device" has "$id" state queued
told "requeued.*is out of use" "$id" || fail "$("$gpumux" events "$id")"
"$gpumux" enable "$(device 0 uuid)"
wait_until "it begins again" has "$id" attempt 2
has "$id" failures 0 || fail "$(show "$id")"
cancel "$id"
ends "$id" cancelled
wait %% 2> /dev/null || true

echo "-- one that has a command to resume with is ended, as it can begin there"
wait_until "the device is healthy" healthy
id=$(task 8g 2g "{\"resume\": $(json_shell "echo by its resume command; exec sleep 1000")}")
wait_field "$id" state running
wait_until "it trains" ran_past "$id" 10
fault 0 thermal 50
wait_until "it is evicted" eval '[[ $(field "$id" "attempts[0].text") == evicted* ]]'
! output "$id" | grep 'by its resume command' || fail "it began with that: $(show "$id")"
fault 0 thermal 0
wait_until "it begins again" has "$id" attempt 2
wait_until "it does so by its resume command" eval 'output "$id" | grep "by its resume command"'
cancel "$id"
ends "$id" cancelled

echo "-- what the driver cannot move: it says so, and it runs on"
wait_until "the device is healthy" healthy
id=$(submit "{\"devices\": 1, \"quota\": \"1g\",
    \"command\": [\"$GPUMUX_BUILD/tests/system/managed_program\"]}")
wait_field "$id" state running
wait_until "it works" ran_past "$id" 3
! "$gpumux" suspend "$id" 2> "$work/err" || fail "it went"
grep -q 'the driver cannot do it for process' "$work/err" || fail "$(cat "$work/err")"
stood=$(samples "$id")
wait_until "it goes on" ran_past "$id" $((stood + 10))
has "$id" attempt 1 || fail "$(show "$id")"

echo "-- and if its device wants it off all the same, it is ended and queued again"
fault 0 thermal 50
wait_until "it was evicted" \
    eval '[[ $(field "$id" "attempts[0].text") == "evicted, and it could not be suspended"* ]]'
fault 0 thermal 0
wait_until "it begins again" has "$id" attempt 2
cancel "$id"
ends "$id" cancelled

echo "-- more than the host has room for: refused, and it runs on"
stop
up --set mps=off --set suspend_reserve=100
id=$(task 8g 2g)
wait_field "$id" state running
wait_until "it trains" ran_past "$id" 10
! "$gpumux" suspend "$id" 2> "$work/err" || fail "it went"
grep -q 'its host has room for' "$work/err" || fail "$(cat "$work/err")"
has "$id" state running || fail "$(show "$id")"
told suspend_failed "$id" || fail "$("$gpumux" events "$id")"
stood=$(samples "$id")
wait_until "it goes on" ran_past "$id" $((stood + 100))
cancel "$id"
ends "$id" cancelled
stop

echo "-- a client of MPS cannot be: it says so, and runs on"
rm -rf "$state/emu"
up
id=$(task 8g 1g)
wait_field "$id" state running
! "$gpumux" suspend "$id" 2> "$work/err" || fail "it went"
grep -q "MPS.*'gpumux requeue' it, or submit it without a quota or where mps is off" "$work/err" \
    || fail "$(cat "$work/err")"
has "$id" state running || fail "$(show "$id")"
cancel "$id"
ends "$id" cancelled
stop
