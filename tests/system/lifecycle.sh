#!/bin/bash
# The life of a task: dependencies, arrays, retries, time limit, grace, priorities, drain, requeue.
. "$(dirname "$0")/lib.sh"
start --emulate 1xT4
node=$(api GET /v1/nodes 'nodes[0].name')
journal=$work/journal

say dependencies
first=$(submit "{\"name\": \"first\",
    \"command\": \"until [ -e $work/go ]; do sleep 0.02; done; echo first >> $journal\"}")
second=$(submit "{\"command\": \"echo second >> $journal\", \"after\": [\"first\"]}")
wait_field "$first" state running
has "$second" state queued || fail "it did not wait"
[ -n "$(field "$second" text)" ] || fail "nothing says why it waits"
touch "$work/go"
ends "$second" succeeded
[ "$(tr '\n' ' ' < "$journal")" = "first second " ] || fail "out of order: $(cat "$journal")"

bad=$(submit '{"name": "bad", "command": ["false"]}')
ends "$(submit '{"command": ["true"], "after": ["bad"]}')" failed dependency
ends "$(submit '{"command": ["true"], "after": ["bad:ended"]}')" succeeded
ends "$(submit "{\"command\": [\"true\"], \"after\": [\"$second\", \"$bad:ended\"]}")" succeeded
expect_status 400 POST /v1/workloads \
    '{"command": ["true"], "directory": "/", "after": ["nobody"]}'

say arrays
submit "{\"name\": \"arr\", \"array\": 5,
    \"command\": \"echo \$GPUMUX_ARRAY_INDEX >> $work/indices\"}" > /dev/null
array_succeeded() {
    [ "$(api GET '/v1/workloads?name=arr&state=succeeded' 'workloads[].id' | wc -l)" = 5 ]
}
wait_until "5 elements have succeeded" array_succeeded
[ "$(sort -n "$work/indices" | tr '\n' ' ')" = "0 1 2 3 4 " ] \
    || fail "indices: $(cat "$work/indices")"
[ "$(api GET '/v1/workloads?name=arr' 'workloads[].name' | sort | paste -sd ' ')" = \
    "arr[0] arr[1] arr[2] arr[3] arr[4]" ] || fail "names of elements"

say retries
# shellcheck disable=SC2016
flaky='{"command": "[ $GPUMUX_ATTEMPT = 3 ] || exit 3"}'
lucky=$(submit "$(json_with "$flaky" retries 2)")
unlucky=$(submit "$(json_with "$flaky" retries 1)")
ends "$lucky" succeeded
[ "$(field "$lucky" attempt,failures)" = $'3\n2' ] || fail "$(show "$lucky")"
ends "$unlucky" failed exit
[ "$(field "$unlucky" attempt,exit_code)" = $'2\n3' ] || fail "$(show "$unlucky")"
[ "$(field "$unlucky" 'attempts[].number,attempts[].failure,attempts[].exit_code' \
    | paste -sd ' ')" = \
    '1 2 exit exit 3 3' ] || fail "$(show "$unlucky")"
ends "$(submit '{"command": "kill -SEGV $$"}')" failed signal
ends "$(submit '{"command": ["/no/such/program"]}')" failed start

say time limit
ends "$(submit '{"command": ["sleep", "1000"], "time_limit": "200ms", "grace": "100ms"}')" failed \
    timeout

say grace
polite=$(submit "{\"command\": \"trap 'echo bye >> $work/polite; exit 0' TERM; \
echo > $work/polite; while :; do sleep 0.02; done\"}")
stubborn=$(submit "{\"command\": \"trap '' TERM; echo > $work/stubborn; \
while :; do sleep 0.02; done\", \"grace\": \"200ms\"}")
wait_until "both have set their traps" test -e "$work/polite" -a -e "$work/stubborn"
cancel "$polite"
cancel "$stubborn"
ends "$polite" cancelled
grep -q bye "$work/polite" || fail "it was not asked first"
ends "$stubborn" cancelled
[ "$(field "$stubborn" signal)" = 9 ] || fail "$(show "$stubborn")"
expect_status 409 POST "/v1/workloads/$stubborn/cancel"

say drain and priorities
api POST "/v1/nodes/$node/drain" > /dev/null
rm "$journal"
ids=()
for priority in 0 5 -5; do
    ids+=("$(submit \
        "{\"command\": \"echo $priority >> $journal\", \"devices\": 1, \"priority\": $priority}")")
done
for id in "${ids[@]}"; do has "$id" state queued || fail "placed on a drained node"; done
api POST "/v1/nodes/$node/undrain" > /dev/null
for id in "${ids[@]}"; do ends "$id" succeeded; done
[ "$(tr '\n' ' ' < "$journal")" = "5 0 -5 " ] || fail "order of priorities: $(cat "$journal")"

say requeue
again=$(submit '{"command": ["sleep", "1000"]}')
wait_field "$again" state running
api POST "/v1/workloads/$again/requeue" > /dev/null
wait_field "$again" attempt 2
wait_field "$again" state running
[ "$(field "$again" failures)" = 0 ] || fail "requeueing counted as a failure"
cancel "$again"
ends "$again" cancelled

say signals
signalled=$(submit \
    "{\"command\": \"trap 'exit 42' USR1; echo > $work/usr1; while :; do sleep 0.02; done\"}")
wait_until "it has set its trap" test -e "$work/usr1"
expect_status 204 POST "/v1/workloads/$signalled/signal" '{"signal": "SIGUSR1"}'
ends "$signalled" failed exit
[ "$(field "$signalled" exit_code)" = 42 ] || fail "exit code $(field "$signalled" exit_code)"

stop
