#!/bin/bash
# Frames that are late, lost and doubled cost time and nothing else: every task runs once.
. "$(dirname "$0")/lib.sh"
network n1
start_control --set lease=60s
cable delay n1 40
cable loss n1 10
cable double n1 20
add_node n1
ids=()
for i in {0..11}; do ids+=("$(submit_task "t$i" 100)"); done
for i in {0..11}; do
    ends "${ids[$i]}" succeeded
    [ "$(field "${ids[$i]}" attempt)" = 1 ] || fail "task $i ran more than once"
    [ "$(life "t$i")" = "start1 end1" ] || fail "task $i: its life was: $(life "t$i")"
    # The output comes the same way.
    [ "$(api GET "/v1/workloads/${ids[$i]}/logs" | cut -d ' ' -f 4-)" = "t$i 1 1"$'\n'"t$i 1 2" ] ||
        fail "task $i: its output is not whole"
done
wait_until "everything is settled" settled n1
