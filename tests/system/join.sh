#!/bin/bash
# Nodes over the network: a cluster is prepared, nodes join it and run workloads; both sides refuse
# unauthorized peers, with a reason.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cluster.sh"
command -v openssl > /dev/null || skip "openssl is not installed"

# refused PATTERN COMMAND...: the command fails, and prints PATTERN.
refused() {
    local pattern=$1 said
    shift
    if said=$("$@" 2>&1); then fail "it was not refused: $*"; fi
    grep -qE -- "$pattern" <<< "$said" || fail "refused, but it says: $said"
}
# Control logs one refused connection a second and counts the others.
next_is_logged() { sleep 1.1; }
# stranger OPTION...: a foreign TLS client; prints the responses.
stranger() {
    timeout $deadline_s openssl s_client -connect "localhost:$port" -servername localhost "$@" 2>&1
}

echo "-- a cluster is prepared, once"
refused "control init" "$gpumux" control --state "$state" --listen 0
init
[ "$(wc -l <<< "$joins")" = 1 ] || fail "more than one line: $joins"
hex='[0-9a-f]{64}'
grep -qE "^gpumux node --control https://localhost:7443 --ca sha256:$hex --token gmj_$hex\$" \
    <<< "$joins" || fail "$joins"
grep -q 'token create --role node' "$work/init.said" || fail "$(cat "$work/init.said")"
cp "$state/tls/ca.pem" "$work/ca.before"
refused "has a certificate authority already" "$gpumux" control init --state "$state" \
    --url https://localhost:7443
cmp "$state/tls/ca.pem" "$work/ca.before" || fail "the authority was touched"
[ "$(stat -c %a "$state/tls/ca.key")" = 600 ] || fail "the authority's key can be read"
refused "https://" "$gpumux" control init --state "$work/x" --url http://localhost:7443
refused "--url" "$gpumux" control init --state "$work/x"

echo "-- a node joins with that line and runs a task"
start_control
refused "control is up|has it|in use|another" "$gpumux" control init --state "$state" \
    --url https://localhost:7443
first=$(sed -E 's/.*--token ([^ ]+).*/\1/' <<< "$joins")
"$gpumux" node --state "$work/n1" --control "$url" --ca "$fingerprint" --token "$first" --name n1 \
    "${node_settings[@]}" >> "$work/n1.log" 2>&1 &
echo $! > "$work/n1.pid"
wait_until "n1 is connected" is_connected n1
id=$(submit '{"command": "echo $GPUMUX_NODE; exit 3"}')
ends "$id" failed exit
[ "$(field "$id" node)" = n1 ] || fail "it ran elsewhere"
api GET "/v1/workloads/$id/logs" | grep -q ' n1$' || fail "no output came over the network"
[ "$(stat -c %a "$work/n1/node/node.key")" = 600 ] || fail "the node's key can be read"

echo "-- it comes back with its URL alone, and takes up what ran"
id=$(submit '{"command": ["sleep", "1000"]}')
wait_field "$id" state running
kill_node n1
wait_until "n1 is away" is_away n1
start_node n1
wait_until "n1 is back" is_connected n1
has "$id" attempt 1 || fail "it was started again"
echo "-- and so after control was killed"
crash
start_control
wait_until "n1 is back" is_connected n1
has "$id" state running || fail "it is $(field "$id" state)"
has "$id" attempt 1 || fail "it was started again"
cancel "$id"
ends "$id" cancelled

echo "-- the same line again does no harm"
said=$(join_node n1 "$first")
grep -q "node join skipped" <<< "$said" || fail "$said"

echo "-- tokens: used, unknown, expired, revoked, for another name"
refused "was used" join_node n2 "$first"
refused "not known" join_node n2 "gmj_$(printf '0%.0s' {1..64})"
refused "not known" join_node n2 "gmx_$(printf '0%.0s' {1..64})"
short=$(new_token --ttl 1s)
gone() { ! "$gpumux" token list | grep -q node; }
wait_until "the token has expired" gone
refused "has expired" join_node n2 "$short"
revoked=$(new_token)
"$gpumux" token revoke "$("$ask" -f <("$gpumux" token list -o json) 'tokens[role=node].id')"
refused "was revoked" join_node n2 "$revoked"
refused "for a node named 'other'" join_node n2 "$(new_token --name other)"
refused "node has not joined" timeout $deadline_s "$gpumux" node --state "$work/n2" --control \
    "$url" "${node_settings[@]}"
[ ! -e "$work/n2/node/node.key" ] || fail "a node that was refused kept a key"

echo "-- names: taken ones take a token of their own"
refused "node of the name n1 already" join_node n2 "$(new_token)" --name n1
refused "letters, digits" join_node n2 "$(new_token)" --name "a b"

echo "-- a node knows control by its fingerprint"
refused "fingerprint" join_node n2 "$(new_token)" --ca "sha256:$(printf '0%.0s' {1..64})"
refused "sha256" join_node n2 "$(new_token)" --ca nonsense

echo "-- another cluster: neither side takes the other's"
mkdir "$work/other"
(
    state=$work/other/c GPUMUX_SOCKET=$work/other/c/api.sock
    "$gpumux" control init --state "$state" --url https://localhost:7443 2> /dev/null
) > "$work/other/line"
"$gpumux" control --state "$work/other/c" --listen 0 > "$work/other/log" 2>&1 &
says "$work/other/log" 'network .* port [0-9]+'
other_port=$(sed -nE 's/^  network .* port ([0-9]+)$/\1/p' "$work/other/log")
url=https://localhost:$other_port fingerprint=$(sed -E 's/.*--ca ([^ ]+).*/\1/' \
    "$work/other/line") \
    join_node alien "$(sed -E 's/.*--token ([^ ]+).*/\1/' "$work/other/line")" > /dev/null
start_node alien # with the url of the first
says "$work/alien.log" "control connection failed.*certificate"
kill_node alien
alien=(-cert "$work/alien/node/node.pem" -key "$work/alien/node/node.key" -alpn gpumux-node/1)
next_is_logged
(sleep 1) | stranger "${alien[@]}" > "$work/said" || true
grep -qE "alert (unknown ca|bad certificate|decrypt)" "$work/said" \
    || fail "an alien is let in: $(cat "$work/said")"
says "$control_log" "connection refused.*certificate"
refused "not found|no node" api GET /v1/nodes/alien

echo "-- a certificate is for its name"
own=(-cert "$work/n1/node/node.pem" -key "$work/n1/node/node.key" -CAfile "$state/tls/ca.pem")
hello='{"type":"hello","protocol":1,"version":"VERSION","node":{"name":"n9","instance":"i",'
hello+='"version":"VERSION","labels":{},"devices":[]},"attempts":[]}'
(echo "${hello//VERSION/$("$gpumux" version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' \
    | head -n 1)}"; sleep 2) \
    | stranger "${own[@]}" -alpn gpumux-node/1 -quiet > "$work/said" || true
grep -q 'certificate is for a node of the name n1, not n9' "$work/said" \
    || fail "$(cat "$work/said")"
next_is_logged
(sleep 1) | stranger -alpn gpumux-node/1 > "$work/said" || true
says "$control_log" "without a node's certificate"
wait_until "n1 is not disturbed" is_connected n1

echo "-- a node's certificate is not for the API"
expect_over_tls() {
    local got
    got=$(curl -sS -o "$work/body" -w '%{http_code}' --cacert "$state/tls/ca.pem" "${@:3}" "$url$2")
    [ "$got" = "$1" ] || fail "$2 answered $got instead of $1: $(cat "$work/body")"
}
expect_over_tls 403 /v1/nodes --cert "$work/n1/node/node.pem" --key "$work/n1/node/node.key"
expect_over_tls 401 /v1/nodes
expect_over_tls 200 /healthz

echo "-- plain text, and TLS that is too old"
next_is_logged
! curl -sS "http://localhost:$port/healthz" > "$work/said" 2>&1 \
    || fail "plain text is answered: $(cat "$work/said")"
says "$control_log" "connection refused.*plain HTTP"
next_is_logged
! echo | stranger -tls1_2 > "$work/said" || fail "TLS 1.2 is spoken: $(cat "$work/said")"
says "$control_log" "connection refused.*older than TLS 1.3"
ends "$(submit '{"command": ["true"]}')" succeeded
stop
