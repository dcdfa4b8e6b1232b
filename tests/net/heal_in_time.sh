#!/bin/bash
# The network is back before the lease expires: the node has made new connections meanwhile, and its
# task has not been touched. Control hears of the task's progress.
. "$(dirname "$0")/lib.sh"
network n1 n2
start_control --set lease=16s
add_node n1
id=$(submit_task t0 600000)
brief=$(submit_task t1 100)
wait_until "the task has started" journal_says start t0 1
pid=$(pid_of t0 1)
add_node n2
ends "$brief" succeeded

waits=$(submit \
    "{\"name\": \"t2\", \"command\": $(json_shell "until [ -e $work/go ]; do sleep 0.01; done")}")
wait_field "$waits" state running
where=$(field "$waits" node)
cable cut "$where"
touch "$work/go" # it ends while nobody hears of it
wait_until "its node is tired of silence" says "$where" "reason=silent"
has "$waits" state running || fail "control knows what it cannot have heard"
is_connected "$where" > /dev/null || fail "the node was given up within its lease"
cable heal "$where"
wait_until "it has joined again" says "$where" "control session opened" 2
ends "$waits" succeeded
[ "$(field "$waits" attempt)" = 1 ] || fail "it ran again"
has "$id" state running || fail "the other task was touched"
kill -0 "$pid" || fail "the other task has ended"
[ "$(field "$id" attempt)" = 1 ] || fail "the other task runs again"
[ "$(life t0)" = start1 ] || fail "its life was: $(life t0)"
only_one_left() {
    [ "$(ls "$work/n1/node/attempts" "$work/n2/node/attempts" | grep -c '[.]1$')" = 1 ]
}
wait_until "what ended is settled" only_one_left
