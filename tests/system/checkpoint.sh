#!/bin/bash
# The process that moves a suspended task's memory is killed, hangs, or fails. The task never counts
# as running while it is stopped, nor as suspended while it runs. A special driver takes orders from
# files.
. "$(dirname "$0")/lib.sh"
burn=$GPUMUX_BUILD/workloads/gpumux-burn
steered=$work/steered
mkdir -p "$steered/bin" "$steered/lib/gpumux/emu"
cp "$gpumux" "$steered/bin/gpumux"
for library in "$GPUMUX_BUILD"/emu/lib*.so.1; do cp "$library" "$steered/lib/gpumux/emu"; done
mv "$steered/lib/gpumux/emu/libcuda.so.1" "$steered/lib/gpumux/emu/libcuda-real.so"
cp "$GPUMUX_BUILD/tests/system/checkpoint_driver.so" "$steered/lib/gpumux/emu/libcuda.so.1"
cp "$GPUMUX_BUILD/lib/libgpumux-cuda.so" "$steered/lib/gpumux"
up() {
    local gpumux=$steered/bin/gpumux
    start --emulate 1xH200:24g --policy firstfit --set mps=off
}
# The task itself uses the emulated driver.
task() {
    submit "$(json_with '{}' devices 1 quota '"20g"' command \
        "$(json_words env LD_LIBRARY_PATH="$GPUMUX_BUILD/emu" "$burn" --step-ms 20 --memory "$1" \
        --steps 10000000)")"
}
samples() { output "$1" | grep -o 'samples=[0-9]*' | tail -n 1 | cut -d= -f2; }
ran_past() { [ "$(samples "$1")" -gt "$2" ]; }
goes_on() {
    local stood
    wait_field "$id" state running
    stood=$(samples "$id")
    wait_until "it goes on" ran_past "$id" $((stood + 50))
    has "$id" attempt 1 || fail "$(show "$id")"
    wait_until "nothing of it is left" eval '[ -z "$(ls "$state/node/suspended")" ]'
}
stands_still() {
    local stood
    has "$id" state suspended || fail "$(show "$id")"
    stood=$(samples "$id")
    pause 0.3
    [ "$(samples "$id")" = "$stood" ] || fail "it runs: $(show "$id")"
    jq -e '.wants_off and .place != "device"' "$state/node/records/$id.1" > /dev/null \
        || fail "there is no record of it"
}
# driver STEP WORD: sets the driver's behaviour at this step; without a word, the normal one.
driver() {
    if [ $# -gt 1 ]; then
        echo "$2" > "$state/emu/devices.$1"
    else
        rm -f "$state/emu/devices.$1"
    fi
}
movers() { pgrep -f "^gpumux checkpoint .*$work/" || true; }
mover_is_there() { [ -n "$(movers)" ]; }
no_mover() { [ -z "$(movers)" ]; }
order() { api POST "/v1/workloads/$id/$1" > /dev/null; }
logged() { grep -q -- "$1" "$log"; }

up
id=$(task 2g)
wait_field "$id" state running
wait_until "it trains" ran_past "$id" 10

echo "-- killed on the way off: that is undone, and it runs on"
driver checkpoint kill
! "$gpumux" suspend "$id" 2> "$work/err" || fail "it went"
grep -q 'the process that moves it was killed' "$work/err" || fail "$(cat "$work/err")"
goes_on

echo "-- which fails: it stands still, and comes back when it can"
driver unlock fail
order suspend
wait_field "$id" state suspended
stands_still
driver unlock
driver checkpoint
"$gpumux" resume "$id"
goes_on

echo "-- or is killed, too; then it is made sure that it is off"
driver checkpoint kill
driver unlock kill
order suspend
wait_field "$id" state suspended
stands_still
driver checkpoint
wait_until "its device is empty" eval '[ "$(device 0 usage.memory_used_bytes)" = 0 ]'
stands_still
driver unlock
"$gpumux" resume "$id"
goes_on

echo "-- killed with its agent, before all is moved: the next finds out how they are"
driver checkpoint hang
order suspend
wait_until "it moves" mover_is_there
crash
driver checkpoint fail
wait_until "the one before is through" no_mover
up
wait_field "$id" state running
told suspend_failed "$id" | grep -q 'checkpoint of process' || fail "$("$gpumux" events "$id")"
goes_on

echo "-- one that hangs: the next agent's waits for it, and goes on where it was"
driver checkpoint hang
order suspend
wait_until "it moves" mover_is_there
crash
up
wait_until "two are there" eval '[ "$(movers | wc -l)" = 2 ]'
has "$id" state suspending || fail "$(show "$id")"
kill -KILL "$(pgrep -of "^gpumux checkpoint .*$work/")"
driver checkpoint
wait_field "$id" state suspended
wait_until "its device is empty" eval '[ "$(device 0 usage.memory_used_bytes)" = 0 ]'

echo "-- it cannot come back: it stays, and comes when it can"
driver restore fail
order resume
wait_until "it says so" told 'resume_failed.*restore of process' "$id"
wait_field "$id" state suspended
driver restore
wait_field "$id" state running
goes_on

echo "-- nor where the one who brings it is killed"
"$gpumux" suspend "$id"
driver restore kill
order resume
wait_until "it says so" told 'resume_failed.*was killed' "$id"
driver restore
wait_field "$id" state running
goes_on

echo "-- an agent that cannot look at it leaves it as it was, with its devices others'"
"$gpumux" suspend "$id"
other=$(task 3g)
wait_field "$other" state running
crash
driver state fail
up
wait_until "that is known" logged \
    "attempt memory move failed attempt=$id.1 to=host .*look at the state"
stands_still
has "$other" state running || fail "$(show "$other")"
echo "-- and looks again"
times=$(grep -c "attempt memory moved attempt=$id.1 to=host " "$log")
driver state
wait_until "it is known to be off" eval \
    '[ "$(grep -c "attempt memory moved attempt=$id.1 to=host " "$log")" -gt "$times" ]'
stands_still

echo "-- it ends while somebody is about to move it: nothing is left"
cancel "$other"
ends "$other" cancelled
driver restore hang
order resume
wait_until "it moves" mover_is_there
cancel "$id"
ends "$id" cancelled
wait_until "nothing of it is left" eval '[ -z "$(ls "$state/node/suspended")" ]'
driver restore
stop
