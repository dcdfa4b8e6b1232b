#!/bin/bash
# A node that was cut off reports the changes of its device when it is back, also changes that are
# over by then.
. "$(dirname "$0")/lib.sh"
network n1
start_control
invite
nsenter --net="$net/n1" -- "$gpumux" node --state "$work/n1" --control $url --emulate 1xH200:24g \
    --set node_name=n1 --set monitor_hold_min=500ms "${settings[@]}" "${invitation[@]}" \
    >> "$work/n1.log" 2>&1 &
node_pid[n1]=$!
disown $!
wait_until "n1 has joined" is_connected n1
wait_until "its device is healthy" told "device_state.*healthy"
id=$(submit \
    "{\"devices\": 1, \"command\": $(json_words "$GPUMUX_BUILD/workloads/gpumux-burn" --step-ms 20 \
    --steps 1000000)}")
wait_field "$id" state running
fault() { GPUMUX_EMU=$work/n1/emu/devices "$GPUMUX_BUILD/emu/bin/gpumux-emu-fault" "$@"; }
cable cut n1
wait_until "the node has noticed" says n1 "control connection lost"
fault 0 thermal 50
wait_until "the device is out of bounds" says n1 "to=overlimit"
fault 0 thermal 0
wait_until "it is healthy again" says n1 "from=overlimit to=healthy"
cable heal n1
wait_until "the node is back" is_connected n1
wait_until "control has heard of it" told \
    "device_note.*became overlimit while control was away: its clocks are slowed"
wait_until "and of its end" told "device_note.*became healthy while control was away"
[ "$(told "became overlimit while control was away" | wc -l)" = 1 ] || fail "it is told twice"
kill "${node_pid[n1]}"
wait_until "the node has ended" node_ended n1
