#!/bin/bash
# partition.sh cut|mute|deaf: a node loses control, by both ways or one. Its task runs until the
# lease ends, is ended by its supervisor, and control starts it elsewhere only when that must have
# happened. The node that returns settles what it had.
. "$(dirname "$0")/lib.sh"
how=$1
network n1 n2
start_control "${short_lease[@]}"
add_node n1
id=$(submit_task t0 600000)
wait_field "$id" state running
wait_until "the task has started" journal_says start t0 1
pid=$(pid_of t0 1)
add_node n2

cable "$how" n1
kill -0 "$pid" || fail "the task ended with the cable"
expect_status 503 GET "/v1/workloads/$id/logs" # no part of its output is shown as the whole
wait_until "control misses the node" is_away n1
wait_until "the second copy has started" journal_says start t0 2
if kill -0 "$pid" 2> /dev/null; then fail "two copies live"; fi
wait_field "$id" node n2
wait_field "$id" state running
[ "$(life t0)" = "start1 start2" ] || fail "its life was: $(life t0)"
[ "$(field "$id" 'attempts[0].lost,attempts[0].node')" = $'true\nn1' ] \
    || fail "attempt 1 is not lost"

cable heal n1
wait_until "the node is back" is_connected n1
wait_until "the node has settled its attempt" settled n1
exit=$work/n1/node/finished/$id.1/exit.json
grep -q lease "$exit" || fail "its lease did not end it: $(cat "$exit")"
[ "$(field "$id" attempt)" = 2 ] || fail "it was touched when the node returned"
has "$id" state running || fail "it was ended when the node returned"
cancel "$id"
ends "$id" cancelled
[ "$(life t0)" = "start1 start2" ] || fail "its life was: $(life t0)"
