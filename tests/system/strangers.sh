#!/bin/bash
# Users beside each other: visibility, permissions, and the accounts that processes run as.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root, to be several users"
stage_build
owner=65534 stranger=65533
admin=$(id -u games) # an account that every system has, in its own group
start --emulate 1xT4 --set admin_group=games
json=(-H 'Content-Type: application/json' --data-binary)
mkdir -m 777 "$work/open"

# Processes of any user may have to write a report (scripts/test).
if [[ "${ASAN_OPTIONS:-}:${TSAN_OPTIONS:-}" =~ log_path=([^:]*)/ ]]; then
    as $stranger test -w "${BASH_REMATCH[1]}" \
        || fail "uid $stranger cannot write into ${BASH_REMATCH[1]}"
fi

# submit_as UID JSON
submit_as() {
    as "$1" "$ask" -d "$(json_with "$2" directory '"/"' devices 0)" "$GPUMUX_SOCKET" /v1/workloads \
        'workloads[0].id'
}
# expect_as UID CODE METHOD PATH [JSON]
expect_as() {
    local got
    rm -f "$work/open/body"
    got=$(as "$1" "$ask" -s "$work/open/body" -X "$3" ${5:+-d "$5"} "$GPUMUX_SOCKET" "$4")
    [ "$got" = "$2" ] || fail "uid $1: $3 $4 answered $got instead of $2: $(cat "$work/open/body")"
}
body() { "$ask" -f "$work/open/body" "$1"; }

echo "-- as whom a workload runs"
id=$(submit_as $owner "{\"command\": \"id -u; id -G; umask; touch $work/open/made; \
ls /proc/self/fd | wc -l\", \"environment\": {\"SECRET\": \"concealed\"}}")
ends "$id" succeeded
[ "$(stat -c %u "$work/open/made")" = $owner ] || fail "it ran as $(stat -c %u "$work/open/made")"
api GET "/v1/workloads/$id/logs" | cut -d ' ' -f 4- > "$work/said"
[ "$(sed -n 1p "$work/said")" = $owner ] || fail "said: $(cat "$work/said")"
grep -qw 0 <(sed -n 2p "$work/said") && fail "it kept group 0"
[ "$(sed -n 3p "$work/said")" = 0077 ] || fail "umask: $(sed -n 3p "$work/said")"
# ls has 0, 1, 2 and the folder that it reads.
[ "$(sed -n 4p "$work/said")" = 4 ] || fail "descriptors were inherited: $(sed -n 4p "$work/said")"
rm "$work/open/made"

echo "-- what others see"
run=$(submit_as $owner '{"name": "theirs", "command": ["sh", "-c", "echo private; exec sleep 1000"],
    "environment": {"SECRET": "concealed"}}')
wait_field "$run" state running
expect_as $owner 200 GET "/v1/workloads/$run"
[ "$(body spec.environment.SECRET)" = concealed ] || fail "its owner does not see the environment"
expect_as $stranger 200 GET "/v1/workloads/$run"
[ "$(body spec.environment.SECRET)" = null ] || fail "a stranger sees $(body spec.environment)"
[[ $(body spec.environment) == *'"SECRET"'* ]] || fail "names of variables are to be seen"
expect_as $stranger 200 GET /v1/workloads
grep -q concealed "$work/open/body" && fail "the list shows the environment"
expect_as $owner 200 GET "/v1/workloads/$id/logs"
expect_as $stranger 403 GET "/v1/workloads/$id/logs"
output_files() { ls "$state/node/attempts/"*/output.*.log; }
wait_until "there is something to steal" eval 'output_files | xargs grep -q private'
for file in $(output_files); do
    as $stranger cat "$file" > "$work/stolen" 2> /dev/null \
        && fail "$file can be read: $(cat "$work/stolen")"
done

echo "-- what others may do"
expect_as $stranger 403 POST "/v1/workloads/$run/cancel"
expect_as $stranger 403 POST "/v1/workloads/$run/requeue"
expect_as $stranger 403 POST "/v1/workloads/$run/signal" '{"signal": "SIGKILL"}'
expect_as $stranger 403 POST "/v1/nodes/$(api GET /v1/nodes 'nodes[0].name')/drain"
expect_as $stranger 403 POST /v1/workloads '{"command": ["id"], "directory": "/", "user": "root"}'
expect_as $stranger 403 POST /v1/workloads '{"command": ["id"], "directory": "/", "user": "nobody"}'
has "$run" state running || fail "a stranger changed it"
has "$run" attempt 1 || fail "a stranger changed it"

echo "-- keys belong to their users"
mine=$(as $owner curl -sS --unix-socket "$GPUMUX_SOCKET" http://gpumux/v1/workloads \
    -H 'Idempotency-Key: k' \
    "${json[@]}" '{"command": ["true"], "directory": "/", "devices": 0}' | jq '.workloads[0].id')
other=$(as $stranger curl -sS --unix-socket "$GPUMUX_SOCKET" http://gpumux/v1/workloads \
    -H 'Idempotency-Key: k' \
    "${json[@]}" '{"command": ["true"], "directory": "/", "devices": 0}' | jq '.workloads[0].id')
[ "$mine" != "$other" ] || fail "one key for two users"

echo "-- admins: the group, and root"
as "$admin" "$ask" -X POST "$GPUMUX_SOCKET" "/v1/workloads/$run/requeue" > /dev/null
wait_field "$run" attempt 2
cancel "$run"
ends "$run" cancelled
nobody=$(submit "{\"command\": \"touch $work/open/nobodys\", \"user\": \"nobody\"}")
ends "$nobody" succeeded
[ "$(stat -c %U "$work/open/nobodys")" = nobody ] \
    || fail "user: it ran as $(stat -c %U "$work/open/nobodys")"
stop

echo "-- a user has a part of the queue, also after a restart; administrators have all of it"
never() { echo "{\"command\": [\"true\"], \"directory\": \"/\", \"devices\": 16, \"array\": $1}"; }
start --emulate 1xT4 --set admin_group=games --set queue_max=20
expect_as $owner 201 POST /v1/workloads "$(never 4)"
expect_as $owner 429 POST /v1/workloads "$(never 2)"
[[ $(body detail) == *"4 workloads of yours "*"limit of 5 "*queue_max_user* ]] \
    || fail "$(body detail)"
stop
start --emulate 1xT4 --set admin_group=games --set queue_max=20
expect_as $owner 429 POST /v1/workloads "$(never 2)"
expect_as $owner 201 POST /v1/workloads "$(never 1)"
expect_as $owner 429 POST '/v1/workloads?dry_run=1' "$(never 1)"
expect_as $stranger 201 POST /v1/workloads "$(never 5)"
expect_as "$admin" 201 POST /v1/workloads "$(never 6)"
expect_status 201 POST /v1/workloads "$(never 4)"
expect_status 429 POST /v1/workloads "$(never 1)"
stop
start --emulate 1xT4 --set queue_max=40 --set queue_max_user=0
expect_as $owner 201 POST /v1/workloads "$(never 20)"
stop

echo "-- without allow_root nothing runs as root"
start --emulate 1xT4 --set allow_root=false
expect_status 403 POST /v1/workloads '{"command": ["true"], "directory": "/", "devices": 0}'
stop

echo "-- without root gpumux serves its own user"
state=$work/open/own GPUMUX_SOCKET=$work/open/own/api.sock run_as=(as $owner)
start --emulate 2xT4
id=$(submit_as $owner '{"command": ["id", "-u"], "devices": 1}')
ends "$id" succeeded
expect_as $owner 200 GET "/v1/workloads/$id/logs"
grep -q " $owner\$" "$work/open/body" || fail "$(cat "$work/open/body")"
expect_as $stranger 403 POST /v1/workloads '{"command": ["true"], "directory": "/", "devices": 0}'
