#!/bin/bash
# gpumux on the network: accepted identities and their rights, and refusals of all others.
. "$(dirname "$0")/lib.sh"
export HOME=$work/home XDG_CONFIG_HOME=$work/home/config
mkdir -p "$XDG_CONFIG_HOME/gpumux"
ca=$state/tls/ca.pem
account=$(id -un) other=nobody
[ "$(id -u)" != 0 ] || account=games

port_of_log() { sed -n 's/.*network .*port \([0-9]*\)$/\1/p' "$log" | tail -n 1; }
start_listening() {
    start --emulate 1xT4 --listen 127.0.0.1:0 "$@"
    port=$(port_of_log)
    [ -n "$port" ] || fail "the daemon does not say its port"
    export GPUMUX_URL=https://127.0.0.1:$port
}
# token ROLE ACCOUNT [OPTION...]: an administrator makes it on control's machine.
token() { "$gpumux" token create --socket "$GPUMUX_SOCKET" -q --role "$1" --account "$2" "${@:3}"; }
# A node that joined and was never started is known as well.
node_joined() { [[ $(api GET /v1/nodes 'nodes[].connected') == *true* ]]; }
token_id() {
    "$ask" -f <("$gpumux" token list --socket "$GPUMUX_SOCKET" -o json) "tokens[account=$1].id"
}
# knock TOKEN METHOD PATH [CURL OPTION...]: prints the status; the body is left in $work/body.
knock() {
    curl -sS --cacert "$ca" --max-time 30 -o "$work/body" -w '%{http_code}' -X "$2" \
        "$GPUMUX_URL$3" \
        ${1:+-H "Authorization: Bearer $1"} "${@:4}"
}
# expect CODE TOKEN METHOD PATH [CURL OPTION...]
expect() {
    local got
    got=$(knock "${@:2}")
    [ "$got" = "$1" ] || fail "$3 $4 answered $got instead of $1: $(cat "$work/body")"
}
json=(-H 'Content-Type: application/json' --data-binary)
# listens PID: the process has a TCP socket that others can connect to.
listens() {
    local inodes
    inodes=$(find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' 2> /dev/null | tr -dc '0-9\n')
    awk 'NR > 1 && $4 == "0A" { print $10 }' /proc/net/tcp /proc/net/tcp6 | grep -qxF "$inodes"
}

echo "-- nothing listens on the network unless it is told to, and prepared"
start --emulate 1xT4
listens "$daemon_pid" && fail "a port is open without --listen"
stop
"$gpumux" control --state "$state" --listen 127.0.0.1:0 > "$work/out" 2>&1 \
    && fail "it listens without an authority"
grep -q 'gpumux control init' "$work/out" || fail "no word on what to do: $(cat "$work/out")"
"$gpumux" control init --state "$state" --url https://localhost:1 > "$work/join" 2> /dev/null
join_token=$(grep -o 'gmj_[0-9a-f]*' "$work/join")
start_listening --set queue_max_user=4
listens "$daemon_pid" || fail "no port is open with --listen"
[ "$(stat -c %a "$state/tls/ca.key")" = 600 ] || fail "the authority's key can be read"

echo "-- without a token: nothing but health"
awk '/^  \/[a-z]/ { path = $1; sub(/:$/, "", path) }
     path && /^    (get|post|put|delete):$/ { sub(/:/, "", $1); print toupper($1), path }
     /^components:/ { exit }' "$GPUMUX_SOURCE/api/openapi.yaml" > "$work/operations"
[ "$(wc -l < "$work/operations")" -gt 15 ] || fail "the API document was not read"
while read -r method path; do
    case $path in
    /healthz | /readyz) expect 200 "" "$method" "$path" ;;
    /v1/join) expect 400 "" "$method" "$path" "${json[@]}" '{}' ;;
    *)
        path=$(sed 's/{[a-z]*}/1/g' <<< "$path")
        expect 401 "" "$method" "$path"
        expect 401 "gmx_$(printf '0%.0s' {1..64})" "$method" "$path"
        expect 401 "nonsense" "$method" "$path"
        expect 401 "$join_token" "$method" "$path"
        ;;
    esac
done < "$work/operations"
grep -q 'urn:gpumux:problem' "$work/body" || fail "not a problem document: $(cat "$work/body")"

echo "-- roles"
viewer=$(token viewer watcher) user=$(token user "$account") admin=$(token admin root)
task='{"name": "theirs", "command": ["sleep", "1000"], "devices": 0, "directory": "/",
    "environment": {"SECRET": "s3"}}'
for path in /v1/workloads /v1/nodes /v1/events /v1/version /metrics; do
    expect 200 "$viewer" GET "$path"
done
expect 403 "$viewer" POST /v1/workloads "${json[@]}" "$task"
expect 201 "$user" POST /v1/workloads "${json[@]}" "$task"
id=$("$ask" -f "$work/body" 'workloads[0].id')
wait_field "$id" state running
[ "$(field "$id" user)" = "$account" ] || fail "it is not the account's: $(show "$id")"
expect 200 "$viewer" GET "/v1/workloads/$id"
grep -q s3 "$work/body" && fail "a viewer sees values of the environment"
expect 200 "$user" GET "/v1/workloads/$id"
grep -q s3 "$work/body" || fail "its owner does not see the environment"
stranger=$(token user "$other")
for path in cancel requeue; do
    expect 403 "$viewer" POST "/v1/workloads/$id/$path"
    expect 403 "$stranger" POST "/v1/workloads/$id/$path"
done
expect 403 "$stranger" GET "/v1/workloads/$id/logs"
expect 403 "$stranger" POST "/v1/workloads/$id/signal" "${json[@]}" '{"signal": "SIGKILL"}'
expect 403 "$stranger" POST /v1/workloads "${json[@]}" \
    '{"command": ["id"], "directory": "/", "user": "root"}'
node=$(api GET /v1/nodes 'nodes[0].name')
for token in "$viewer" "$user"; do
    expect 403 "$token" POST "/v1/nodes/$node/drain"
    expect 403 "$token" GET /v1/tokens
    expect 403 "$token" POST /v1/tokens "${json[@]}" '{"role": "admin", "account": "x"}'
    expect 403 "$token" DELETE /v1/tokens/1
done
has "$id" state running || fail "somebody who may not has ended it"
expect 202 "$user" POST "/v1/workloads/$id/cancel"
ends "$id" cancelled
expect 200 "$admin" POST "/v1/nodes/$node/drain"
expect 200 "$admin" POST "/v1/nodes/$node/undrain"
expect 201 "$admin" POST /v1/tokens "${json[@]}" \
    '{"role": "viewer", "account": "temporary", "ttl": "1h"}'

echo "-- accounts that only nodes know"
ada=$(token user ada-elsewhere) ben=$(token user ben-elsewhere)
quick='{"name": "quick", "command": ["true"], "devices": 0, "directory": "/"}'
expect 201 "$ada" POST /v1/workloads "${json[@]}" "$quick" -H 'Idempotency-Key: k'
of_ada=$("$ask" -f "$work/body" 'workloads[0].id')
expect 200 "$ada" POST /v1/workloads "${json[@]}" "$quick" -H 'Idempotency-Key: k'
[ "$("$ask" -f "$work/body" 'workloads[0].id')" = "$of_ada" ] || fail "the key did not hold"
expect 201 "$ben" POST /v1/workloads "${json[@]}" "$quick" -H 'Idempotency-Key: k'
of_ben=$("$ask" -f "$work/body" 'workloads[0].id')
expect 200 "$ada" GET '/v1/workloads?user=ada-elsewhere'
[ "$("$ask" -f "$work/body" 'workloads[].id')" = "$of_ada" ] \
    || fail "not hers alone: $(cat "$work/body")"
expect 200 "$ada" GET /v1/workloads/quick
[ "$("$ask" -f "$work/body" id)" = "$of_ada" ] || fail "a name means another's before one's own"
expect 403 "$ada" POST "/v1/workloads/$of_ben/cancel"
ends "$of_ada" failed start
ends "$of_ben" failed start
never='{"command": ["true"], "directory": "/", "devices": 16, "array": 4}'
expect 201 "$ada" POST /v1/workloads "${json[@]}" "$never"
expect 429 "$ada" POST /v1/workloads "${json[@]}" "$quick"
# The limit of the queue applies to each account.
expect 201 "$ben" POST /v1/workloads "${json[@]}" "$never"
for each in $(api GET '/v1/workloads?state=queued' 'workloads[].id'); do
    cancel "$each"
done
field "$of_ada" text | grep -q ada-elsewhere \
    || fail "no word on the account: $(field "$of_ada" text)"

echo "-- secrets are not kept"
for secret in "$viewer" "$user" "$admin" "$join_token"; do
    cat "$state"/gpumux.db* "$log" | grep -qF "${secret#gm?_}" \
        && fail "a token is in the state or the log"
    grep -q "$(printf '%s' "$secret" | sha256sum | cut -d ' ' -f 1)" "$state"/gpumux.db* \
        || fail "its hash is not in the state"
done
api GET /v1/events | grep -q gmx_ && fail "a token is in an event"

echo "-- commands from elsewhere"
export GPUMUX_CA=$ca GPUMUX_TOKEN=$user
[ "$("$gpumux" run -C / -d 0 -- sh -c 'echo said; cat' <<< typed)" = $'said\ntyped' ] || fail "run"
"$gpumux" submit -q -C / -d 0 -n slow -- sh -c 'echo first; sleep 0.5; echo second' > "$work/id"
[ "$("$gpumux" logs -f slow)" = $'first\nsecond' ] || fail "logs -f"
"$gpumux" wait -q slow
"$gpumux" events slow | grep -q succeeded || fail "events"
"$gpumux" top --once | grep -q T4 || fail "top"
"$gpumux" describe slow > /dev/null
"$gpumux" doctor > "$work/out" || true
grep -q 'ok.*gpumux .* is up' "$work/out" || fail "doctor: $(cat "$work/out")"
"$gpumux" token list 2> "$work/err" && fail "a user lists tokens"
[ "$("$gpumux" token list > /dev/null 2>&1; echo $?)" = 4 ] || fail "the exit code is not 4"
pin=sha256:$(openssl x509 -in "$ca" -noout -fingerprint -sha256 | cut -d = -f 2)
GPUMUX_CA=$pin "$gpumux" ps -q > /dev/null
unset GPUMUX_TOKEN GPUMUX_CA
cp "$ca" "$XDG_CONFIG_HOME/gpumux/ca.pem"
install -m 644 <(echo "$user") "$XDG_CONFIG_HOME/gpumux/token"
"$gpumux" ps > "$work/out" 2>&1 && fail "a token that others can read is used"
grep -q 'chmod 600' "$work/out" || fail "no word on it: $(cat "$work/out")"
chmod 600 "$XDG_CONFIG_HOME/gpumux/token"
"$gpumux" ps > /dev/null
rm "$XDG_CONFIG_HOME/gpumux/ca.pem"
"$gpumux" ps > "$work/out" 2>&1 && fail "it trusts anybody"
grep -q GPUMUX_CA "$work/out" || fail "no word on whom to trust: $(cat "$work/out")"
"$gpumux" ps --url "http://127.0.0.1:$port" > "$work/out" 2>&1 && fail "plain http"
grep -q https "$work/out" || fail "no word on https: $(cat "$work/out")"

echo "-- revoked and expired tokens, with what they opened"
export GPUMUX_CA=$ca
gone=$(token viewer leaving) brief=$(token viewer passing --ttl 3s)
curl -sSN --cacert "$ca" -H "Authorization: Bearer $gone" "$GPUMUX_URL/v1/events?follow=1" \
    > "$work/watch_gone" 2>&1 &
watch_gone=$!
curl -sSN --cacert "$ca" -H "Authorization: Bearer $brief" "$GPUMUX_URL/v1/events?follow=1" \
    > "$work/watch_brief" 2>&1 &
watch_brief=$!
wait_until "both watch" grep -q succeeded "$work/watch_gone" "$work/watch_brief"
kill -0 $watch_gone || fail "the watch ended by itself"
"$gpumux" token revoke "$(token_id leaving)" --socket "$GPUMUX_SOCKET" 2> /dev/null
expect 401 "$gone" GET /v1/nodes
wait_until "the revoked token's stream has ended" sh -c "! kill -0 $watch_gone"
wait_until "the expired token's stream has ended" sh -c "! kill -0 $watch_brief"
expect 401 "$brief" GET /v1/nodes
for word in token_created token_revoked token_expired; do
    api GET /v1/events | grep -q $word || fail "no event $word"
done

echo "-- strangers on the wire"
refused() { grep -q "connection refused .*reason=\"[^\"]*$1" "$log"; }
curl -sS --max-time 10 "http://127.0.0.1:$port/healthz" > "$work/out" 2>&1 && fail "plain HTTP is answered"
wait_until "a line about plain HTTP" refused 'plain HTTP'
printf '\x00\x01\x02\x03nothing known' | timeout 10 bash -c "cat > /dev/tcp/127.0.0.1/$port" || true
wait_until "a line about what is not TLS" refused 'not TLS'
openssl s_client -connect "127.0.0.1:$port" -tls1_2 < /dev/null > "$work/out" 2>&1 \
    && fail "TLS 1.2 is spoken"
wait_until "a line about TLS 1.2" refused 'older than TLS 1.3'
openssl s_client -connect "127.0.0.1:$port" -tls1_3 -CAfile "$ca" -verify_return_error < /dev/null \
    > "$work/out" 2>&1 || fail "TLS 1.3: $(cat "$work/out")"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/own.key" \
    -out "$work/own.pem" \
    -subj /OU=node/CN=box -days 1 2> /dev/null
GPUMUX_TOKEN=$user GPUMUX_CA=$work/own.pem "$gpumux" ps > "$work/out" 2>&1 \
    && fail "another authority is trusted"
grep -q 'not accepted' "$work/out" || fail "no word on the certificate: $(cat "$work/out")"
curl -sS --cacert "$ca" --cert "$work/own.pem" --key "$work/own.key" --max-time 10 \
    "$GPUMUX_URL/healthz" > "$work/out" 2>&1 \
    && fail "another authority's client is let in"
wait_until "a line about its certificate" refused 'certificate is not accepted'

echo "-- a node's certificate is not for the API"
"$gpumux" node --state "$work/n" --control "$GPUMUX_URL" --ca "$pin" --token "$join_token" --name \
    box --join-only > "$work/out" 2>&1 \
    || fail "it does not join: $(cat "$work/out")"
key=$(find "$work/n" -name node.key) pem=$(find "$work/n" -name node.pem)
[ "$(stat -c %a "$key")" = 600 ] || fail "the node's key can be read"
as_node=(--cert "$pem" --key "$key")
expect 200 "" GET /healthz "${as_node[@]}"
for path in /v1/workloads /v1/nodes /v1/tokens /metrics; do
    expect 403 "" GET "$path" "${as_node[@]}"
done
expect 403 "" POST /v1/workloads "${json[@]}" "$quick" "${as_node[@]}"
"$gpumux" node --state "$work/m" --control "$GPUMUX_URL" --ca "$pin" --token "$join_token" --name \
    mox --join-only > "$work/out" 2>&1 \
    && fail "a token lets two nodes join"
grep -q 'used' "$work/out" || fail "no word on it: $(cat "$work/out")"

echo "-- tokens outlive control"
stop
start_listening
expect 200 "$viewer" GET /v1/nodes
expect 401 "$gone" GET /v1/nodes
expect 401 "$brief" GET /v1/nodes
stop
echo "all is as it should be"
