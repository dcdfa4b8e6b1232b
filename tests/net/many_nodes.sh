#!/bin/bash
# many_nodes.sh unix|tls: fifty nodes that are none, on one control: all join, every grant arrives
# once and is settled. How fast is measured by bench/run nodes.
. "$(dirname "$0")/lib.sh"
load=(--nodes 50 --devices 8 --running 300 --submits-per-s 20 --task-ms 300 --seconds 3 \
    --submits-least 20)
if [ "$1" = tls ]; then
    network # so that the port is free
    start_control --set log_level=warn
    enter c "$GPUMUX_BUILD/bench/many_nodes" --api "$GPUMUX_SOCKET" --url $url --state "$state" \
        --control $daemon_pid "${load[@]}" > "$work/out"
else
    "$gpumux" control --state "$state" --set allow_root=true --set log_level=warn >> "$log" 2>&1 &
    daemon_pid=$!
    wait_until "control is ready" daemon_ready_or_gone
    "$GPUMUX_BUILD/bench/many_nodes" --api "$GPUMUX_SOCKET" --node-socket "$state/node.sock" \
        --control $daemon_pid "${load[@]}" > "$work/out"
fi
cat "$work/out"
value() { sed -nE "s/.*\\b$1=([^ ]*).*/\\1/p" "$work/out"; }

[ "$(value submits)" -ge 20 ] || fail "too few submits"
[ "$(value beats)" -ge 50 ] || fail "too few beats were answered"
# Control shows the workloads as the nodes had them: 300 still run, the others have succeeded.
[ "$(api GET /metrics | sed -n 's/^gpumux_workloads{state="running"} //p')" = 300 ] \
    || fail "not 300 run"
[ "$(api GET /metrics | sed -n 's/^gpumux_workloads_finished //p')" = "$(value submits)" ] ||
    fail "not all that were submitted have ended"
[ "$(api GET '/v1/workloads?state=succeeded&limit=500' 'workloads[].id' | wc -l)" \
    = "$(value submits)" ] ||
    fail "not all have ended well"
[ "$(api GET '/v1/nodes?limit=100' 'nodes[].name' | wc -l)" = 50 ] || fail "not 50 nodes"
