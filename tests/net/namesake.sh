#!/bin/bash
# A second node of a name that is taken is refused, and the first has no harm of it: by the join,
# which knows the name; and, where a token was made for that name, by the hello, as long as the
# first is there.
. "$(dirname "$0")/lib.sh"
network n1 n2
start_control --set lease=60s
add_node n1
id=$(submit_task t0 600000)
wait_until "the task has started" journal_says start t0 1

# The second is in n2, has its own state, and says that it is n1.
unharmed() {
    is_connected n1 > /dev/null || fail "the first lost its connection"
    has "$id" state running || fail "the task was touched"
    [ "$(field "$id" attempt)" = 1 ] || fail "the task runs again"
    [ "$(api GET /v1/nodes 'nodes[].name' | wc -l)" = 1 ] || fail "there are two nodes"
    [ -z "$(ls "$work/n2/node/attempts" 2> /dev/null)" ] || fail "the second was given something"
    if says n1 "control session opened" 2; then fail "the first had to join again"; fi
}
invite
start_node n2 --set node_name=n1 "${invitation[@]}"
wait_until "the second has ended" node_ended n2
says n2 "n1" || fail "it did not say why: $(cat "$work/n2.log")"
unharmed

invite --name n1
start_node n2 --set node_name=n1 "${invitation[@]}"
wait_until "the second is refused" says n2 "node refused"
unharmed

# The first is gone, and nothing of it can live: its name is free for who has a certificate for it.
cancel "$id"
ends "$id" cancelled
wait_until "the first has settled its attempt" settled n1
kill "${node_pid[n1]}"
wait_until "the second has taken its place" says n2 "control session opened"
wait_until "control shows it" is_connected n1
