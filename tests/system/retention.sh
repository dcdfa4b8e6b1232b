#!/bin/bash
# Finished workloads and their output are deleted by count; running ones never are.
. "$(dirname "$0")/lib.sh"
start --emulate 1xT4 --set keep_finished_max=5 --set keep_logs_max=3

running=$(submit '{"name": "stays", "command": ["sleep", "1000"]}')
wait_field "$running" state running
# One after another: the one that ended first is deleted first.
for i in $(seq 12); do
    ends_soon=$(submit "{\"name\": \"n$i\", \"command\": \"echo out $i\"}")
    ends "$ends_soon" succeeded
done
finished() {
    api GET '/v1/workloads?state=succeeded,failed,cancelled' 'workloads[].id' | grep -c .
}
settled() {
    [ "$(finished)" = "$1" ] \
        && [ "$(api GET '/v1/workloads?state=queued,placed,starting' 'workloads[0]')" = null ]
}
wait_until "5 finished ones are kept" settled 5
[ "$(api GET '/v1/workloads?state=succeeded' 'workloads[0].id')" = "$ends_soon" ] \
    || fail "the newest was forgotten"
expect_status 404 GET /v1/workloads/n1
has "$running" state running || fail "what runs was touched"

# outputs_kept COUNT NEWEST: the node keeps this number of finished attempts, including this
# workload's.
outputs_kept() {
    [ "$(find "$state/node/finished" -mindepth 1 -maxdepth 1 | wc -l)" = "$1" ] \
        && [ -s "$state/node/finished/$2.1/output.0.log" ]
}
wait_until "the output of 3 finished ones is kept" outputs_kept 3 "$ends_soon"
api GET "/v1/workloads/$ends_soon/logs" | grep -q 'out 12' || fail "the newest output is gone"

echo "-- the same after a crash"
crash
start --emulate 1xT4 --set keep_finished_max=2 --set keep_logs_max=1
wait_until "2 finished ones are kept" settled 2
has "$running" state running || fail "what runs was touched"
new=$(submit '{"command": ["echo", "new"]}')
[ "$new" -gt "$ends_soon" ] || fail "id $new was given before"
ends "$new" succeeded
wait_until "the output of 1 is kept" outputs_kept 1 "$new"
cancel "$running"
ends "$running" cancelled
stop
