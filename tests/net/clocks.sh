#!/bin/bash
# Clocks that count from another moment: a node that booted long before control, and one long after.
# Leases are durations, so nothing changes: see partition.sh.
. "$(dirname "$0")/lib.sh"
unshare -T --fork --boottime 100000 --monotonic 100000 true 2> /dev/null \
    || skip "no time namespaces"
network n1 n2
ahead=(unshare -T --fork --kill-child --boottime 100000 --monotonic 100000)
far_ahead=(unshare -T --fork --kill-child --boottime 3000000 --monotonic 3000000)
clock=("${ahead[@]}")
start_control "${short_lease[@]}"
clock=()
add_node n1 # its clock is behind control's
id=$(submit_task t0 600000)
wait_until "the task has started" journal_says start t0 1
pid=$(pid_of t0 1)
clock=("${far_ahead[@]}")
add_node n2

cable cut n1
wait_until "the second copy has started" journal_says start t0 2
if kill -0 "$pid" 2> /dev/null; then fail "two copies live"; fi
wait_field "$id" node n2
cable heal n1
wait_until "the node is back" is_connected n1
wait_until "the node has settled its attempt" settled n1

# And back: now the one whose clock is ahead is cut.
pid=$(pid_of t0 2)
cable cut n2
wait_until "the third copy has started" journal_says start t0 3
if kill -0 "$pid" 2> /dev/null; then fail "two copies live"; fi
wait_field "$id" node n1
wait_field "$id" state running
cable heal n2
wait_until "the node is back" is_connected n2
wait_until "the node has settled its attempt" settled n2
[ "$(life t0)" = "start1 start2 start3" ] || fail "its life was: $(life t0)"
