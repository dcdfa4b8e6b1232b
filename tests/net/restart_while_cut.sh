#!/bin/bash
# Control is killed and started again while a node is cut off. The new one does not know when that
# node was heard of last, so it waits as long as its tasks may live; then they run elsewhere. The
# node that returns settles what it had. A node whose agent is frozen is treated alike.
. "$(dirname "$0")/lib.sh"
network n1 n2
start_control "${short_lease[@]}"
add_node n1
id=$(submit_task t0 600000)
wait_until "the task has started" journal_says start t0 1
pid=$(pid_of t0 1)
add_node n2
cable cut n1
crash
start_control "${short_lease[@]}"
wait_until "the other node is back" is_connected n2
wait_until "the second copy has started" journal_says start t0 2
if kill -0 "$pid" 2> /dev/null; then fail "two copies live"; fi
wait_field "$id" node n2
cable heal n1
wait_until "the node is back" is_connected n1
wait_until "the node has settled its attempt" settled n1
has "$id" state running || fail "it was ended when the node returned"

# The agent does nothing; the supervisor ends the task by itself.
pid=$(pid_of t0 2)
kill -STOP "${node_pid[n2]}"
wait_until "the third copy has started" journal_says start t0 3
if kill -0 "$pid" 2> /dev/null; then fail "two copies live"; fi
kill -CONT "${node_pid[n2]}"
wait_until "the node is back" is_connected n2
wait_until "the node has settled its attempt" settled n2
wait_field "$id" node n1
wait_field "$id" state running
[ "$(life t0)" = "start1 start2 start3" ] || fail "its life was: $(life t0)"
