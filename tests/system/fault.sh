#!/bin/bash
# A GPU fault among clients of one MPS server: all end, the service is back soon, and the guilty
# task is found.
. "$(dirname "$0")/lib.sh"
emu=$GPUMUX_BUILD/emu/bin
burn=$GPUMUX_BUILD/workloads/gpumux-burn
fault() { GPUMUX_EMU=$state/emu/devices "$emu/gpumux-emu-fault" "$@"; }
spec() {
    echo "{\"kind\": \"$1\", \"devices\": 1, \"quota\": \"2g\", \"command\": [\"$burn\",
        \"--step-ms\", \"5\", \"--sm\", \"30\", \"--memory\", \"1g\", \"--steps\", \"$2\"]}"
}
at() { [ "$(field "$1" attempt)" = "$2" ] && has "$1" state running; }
start --emulate 1xH200:10g --policy firstfit
(unset GPUMUX_EMU GPUMUX_EMU_DEVICES; "$emu/gpumux-emu-fault" 0 reset 2> "$work/whose") \
    && fail "a fault on nobody's device"
grep -q 'Set GPUMUX_EMU to the file emu/devices in the state directory' "$work/whose" \
    || fail "it does not say whose: $(cat "$work/whose")"
service=$(submit "$(spec service 900001)")
guilty=$(submit "$(spec task 900002)")
other=$(submit "$(spec task 900003)")
for id in "$service" "$guilty" "$other"; do wait_field "$id" state running; done
# The task's process, identified by its last argument, on our devices.
client() {
    for p in $(pgrep -f "^$burn.*900002"); do
        grep -qzxF "GPUMUX_EMU=$state/emu/devices" "/proc/$p/environ" && echo "$p"
    done
}
# Fails until the process has a context.
hit() { fault 0 illegal-address "$(client | head -n 1)"; }

echo "-- an illegal address: nobody is blamed, the service comes back first"
wait_until "it faults" hit
wait_until "the repair is shown" eval '"$gpumux" nodes | grep "healthy (repair)"'
wait_until "the service runs again" at "$service" 2
has "$service" failures 0 || fail "the service was blamed"
wait_until "a suspect" eval "has $guilty suspect true || has $guilty faults 1"

echo "-- the guilty one runs alone and is found; the others run on"
for attempt in 2 3 4; do
    wait_until "attempt $attempt of the suspect" at "$guilty" $attempt
    wait_until "it faults" hit
done
ends "$guilty" failed fault
at "$service" 2 || fail "the service was ended again: $(show "$service")"
wait_until "the other task runs" has "$other" state running
stop
