#!/bin/bash
# Monitored devices: limits, Xids, broken devices, and the effect on workloads there.
. "$(dirname "$0")/lib.sh"
emu=$GPUMUX_BUILD/emu/bin
burn=$GPUMUX_BUILD/workloads/gpumux-burn
device_is() { [ "$(device "$1" "$2")" = "$3" ]; }
fault() { GPUMUX_EMU=$state/emu/devices "$emu/gpumux-emu-fault" "$@"; }
task() {
    submit "{\"devices\": 1, \"quota\": \"${2:-9g}\", \"command\": [\"$burn\", \"--step-ms\",
        \"20\", \"--sm\", \"30\", \"--memory\", \"$1\", \"--steps\", \"1000000\"]}"
}
service() {
    submit "{\"kind\": \"service\", \"devices\": 1, \"quota\": \"$1\", \"command\": [\"$burn\",
        \"--service\", \"--rate\", \"10\", \"--kernel-ms\", \"1\", \"--memory\", \"$2\"]}"
}
on() { field "$1" 'devices[0]'; }
start --emulate 2xH200:10g --set monitor_hold_min=1s --set monitor_memory_soft=60 --set \
    monitor_memory_hard=65

echo "-- healthy, and told so"
for d in 0 1; do wait_until "device $d is healthy" device_is $d state healthy; done
wait_until "an event" told "device_state.*healthy"

echo "-- a device can be tested"
self_test() {
    CUDA_VISIBLE_DEVICES=$1 GPUMUX_EMU=$state/emu/devices LD_LIBRARY_PATH=$GPUMUX_BUILD/emu \
        "$gpumux" self-test
}
self_test 0 || fail "a good device does not pass"
self_test 7 && fail "one that is not there passes"

echo "-- a task that has a device to itself may use all of its memory"
whole() {
    submit "{\"devices\": 1, \"command\": [\"$burn\", \"--step-ms\", \"20\", \"--sm\", \"30\",
        \"--memory\", \"8g\", \"--steps\", \"1000000\"]}"
}
launched() { [ "$(field "$1" usage.protection.counters.launches_kernel)" -ge "$2" ]; }
id=$(whole) quiet=$(task 8g) # no MPS client; the other has an MPS server
for one in "$id" "$quiet"; do
    wait_until "it has worked on for many looks at its device" launched "$one" 100
done
! told "device_state.*(unhealthy|overlimit)" || fail "a limit counted for nobody"
for one in "$id" "$quiet"; do
    has "$one" attempt 1 || fail "it was started again: $(show "$one")"
done
cancel "$quiet"
ends "$quiet" cancelled

echo "-- unless a process of somebody else uses that device, too"
GPUMUX_EMU=$state/emu/devices LD_LIBRARY_PATH=$GPUMUX_BUILD/emu CUDA_VISIBLE_DEVICES=$(on "$id") \
    "$burn" --step-ms 20 --steps 1000000 > /dev/null &
stranger_pid=$!
wait_until "a limit counts" told "device_state.*overlimit: .* of its memory"
kill "$stranger_pid"
wait "$stranger_pid" || true
cancel "$id"
ends "$id" cancelled
for d in 0 1; do wait_until "device $d is healthy again" device_is $d state healthy; done

echo "-- memory above the hard limit: the task is evicted and queued again"
service=$(service 5g 3g)
wait_field "$service" state running
small=$(task 1g)
wait_field "$small" state running
big=$(task 4g 5g) # room only beside the service
evicted() { field "$1" 'attempts[].text' | grep ^evicted; }
wait_until "it is evicted" evicted "$big"
wait_until "the state is told" told "device_state.*overlimit"
has "$big" failures 0 || fail "an eviction was counted"
has "$service" attempt 1 || fail "a service was ended for a limit"
cancel "$service"
ends "$service" cancelled
cancel "$big"
ends "$big" cancelled
cancel "$small"
ends "$small" cancelled
for d in 0 1; do wait_until "device $d is healthy again" device_is $d state healthy; done

echo "-- slowed clocks: overlimit while a task is there"
id=$(task 1g)
wait_field "$id" state running
hot=$(api GET /v1/nodes "nodes[0].devices[uuid=$(on "$id")].index")
fault "$hot" thermal 50
wait_until "overlimit" told "device .*:$hot is overlimit: its clocks are slowed"
fault "$hot" thermal 0
wait_until "it runs elsewhere, or again" has "$id" state running
cancel "$id"
ends "$id" cancelled

echo "-- an Xid that says nothing of a workload is an event"
fault 0 xid 62
wait_until "an event" told "device_note.*Xid 62"

echo "-- a fault of its own: found, tried again as a suspect, failed at the third"
# The task's process on our devices; fails until it has a context.
client() {
    for p in $(pgrep -f "^$burn"); do
        grep -qzxF "GPUMUX_EMU=$state/emu/devices" "/proc/$p/environ" && echo "$p"
    done
}
hit() { fault "$index" illegal-address "$(client | head -n 1)"; }
id=$(task 1g)
for attempt in 1 2 3; do
    at() { [ "$(field "$id" attempt)" = "$attempt" ] && has "$id" state running; }
    wait_until "attempt $attempt runs" at
    index=$(api GET /v1/nodes "nodes[0].devices[uuid=$(on "$id")].index")
    wait_until "it faults" hit
    wait_until "it is blamed" eval "[ \"\$(field $id faults)\" = $attempt ]"
done
ends "$id" failed fault
[[ $(field "$id" text) == *"Xid 31"* ]] || fail "the reason is not kept: $(field "$id" text)"

echo "-- ECC: disabled, and what was there goes on elsewhere"
for d in 0 1; do wait_until "device $d is healthy" device_is $d state healthy; done
id=$(task 1g)
wait_field "$id" state running
bad=$(on "$id")
index=$(api GET /v1/nodes "nodes[0].devices[uuid=$bad].index")
fault "$index" ecc
wait_until "disabled" device_is "$index" state disabled
moved() { has "$id" state running && [ "$(on "$id")" != "$bad" ]; }
wait_until "it runs on the other device" moved
has "$id" failures 0 || fail "the device's failure was counted as the task's"
wait_until "an operator is told" told "device_alarm.*ECC"
"$gpumux" nodes -o wide | grep "$bad" | grep "disabled.*Xid" > /dev/null \
    || fail "$("$gpumux" nodes -o wide)"

echo "-- that lasts over a restart of the agent, until an operator enables it"
crash
start --emulate 2xH200:10g --set monitor_hold_min=1s
wait_until "still disabled" device_is "$index" state disabled
[[ $(device "$index" cause) == *Xid* ]] || fail "the cause was lost: $(device "$index" cause)"
fault "$index" reset
"$gpumux" enable "$bad"
wait_until "healthy" device_is "$index" state healthy

echo "-- an operator disables a device in use"
other=$(on "$id")
index=$((1 - index))
"$gpumux" disable "$other"
wait_until "disabled" device_is "$index" state disabled
away() { has "$id" state running && [ "$(on "$id")" = "$bad" ]; }
wait_until "it moved" away
expect_status 404 POST /v1/devices/GPU-none/enable
cancel "$id"
ends "$id" cancelled
api GET /metrics | grep "^gpumux_device_usable.*$other" | grep ' 0$' > /dev/null \
    || fail "the metric does not say that it takes nothing"
[[ $("$gpumux" enable GPU-none 2>&1) == *"'gpumux nodes' lists them"* ]] \
    || fail "no word where devices are listed"
"$gpumux" enable "${other:4:12}"
wait_until "healthy" device_is "$index" state healthy
node=$("$gpumux" nodes -q)
"$gpumux" disable "$node:$index"
wait_until "disabled by its index" device_is "$index" state disabled
"$gpumux" enable "${other:0:16}"
wait_until "healthy" device_is "$index" state healthy
expect_status 404 POST "/v1/devices/$node:2/enable"
expect_status 404 POST "/v1/devices/${other:4:3}/enable"
expect_status 400 POST /v1/devices/GPU-/enable # the prefix of both

echo "-- a disabled device stays disabled while it is lost, whatever else is recorded meanwhile"
listed() { grep -q "^$1 " "$state/node/disabled"; }
lost=$(device 0 uuid) kept=$(device 1 uuid)
"$gpumux" disable "$lost"
wait_until "it is written down" listed "$lost"
stop
fault 0 lost
start --emulate 2xH200:10g --set monitor_hold_min=1s
wait_until "the other can be disabled" "$gpumux" disable "$kept"
wait_until "the other is, too" listed "$kept"
listed "$lost" || fail "the lost one was forgotten: $(cat "$state/node/disabled")"
stop
fault 0 reset
start --emulate 2xH200:10g --set monitor_hold_min=1s
for d in 0 1; do wait_until "device $d is still disabled" device_is $d state disabled; done
"$gpumux" enable "$lost"
wait_until "it is enabled" device_is 0 state healthy
listed "$lost" && fail "it is still written down"
stop
echo "$lost MPS was lost" > "$state/node/untested"
start --emulate 2xH200:10g --set monitor_hold_min=1s
wait_until "the one is tested" device_is 0 state healthy
device_is 1 state disabled || fail "the other is $(device 1 state)"
"$gpumux" enable "$kept"
for d in 0 1; do wait_until "device $d is healthy" device_is $d state healthy; done

echo "-- an evicted task keeps the rest of its grace period when the agent is restarted"
id=$(submit \
    "$(json_with "{\"command\": [\"$burn\", \"--step-ms\", \"20\", \"--steps\", \"1000000\"]}" \
    devices 1 quota '"4g"' grace '"60s"')")
wait_field "$id" state running
record=$state/node/records/$id.1
# On a busy machine an earlier client's work may have been ended as well.
works_ended() { cat "$state"/node/mps/*/control.log | grep -c "Cmd:terminate_client" || true; }
ended_before=$(works_ended)
work_is_ended() { [ "$(works_ended)" -gt "$ended_before" ]; }
burns() {
    local pid; for pid in $(our_processes); do ! grep -qsa "^$burn" "/proc/$pid/cmdline" \
        || echo "$pid"; done
}
wait_until "it computes" launched "$id" 1
# the process does not end by itself
freeze "$(api GET /v1/nodes "nodes[0].devices[uuid=$(on "$id")].index")" burns
"$gpumux" disable "$(on "$id")"
wait_until "it is told to leave" grep -q '"verdict":"moved"' "$record"
crash
jq -c '.end_by_ms -= 55000' "$record" > "$record.new" && mv "$record.new" "$record"
begun_s=$SECONDS
start --emulate 2xH200:10g --set monitor_hold_min=1s
wait_until "its work is ended" work_is_ended
[ $((SECONDS - begun_s)) -lt 50 ] || fail "its grace period began again"
cancel "$id"
ends "$id" cancelled
for d in "$lost" "$kept"; do "$gpumux" enable "$d"; done
for d in 0 1; do wait_until "device $d is healthy" device_is $d state healthy; done

echo "-- a task that an agent finds beyond a limit is evicted"
"$gpumux" disable "$kept"
wait_until "there is one device" device_is 1 state disabled
service=$(service 1g 0)
wait_field "$service" state running
id=$(task 1g)
wait_field "$id" state running
crash
start --emulate 2xH200:10g --set monitor_hold_min=1s --set monitor_memory_soft=4 --set \
    monitor_memory_hard=5
wait_until "it is evicted" evicted "$id"
has "$id" failures 0 || fail "an eviction was counted"
cancel "$id"
ends "$id" cancelled
stop
