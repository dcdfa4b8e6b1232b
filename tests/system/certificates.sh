#!/bin/bash
# Nodes on the network over time: certificates are renewed and expire, and machines take each
# other's names, come back late, and lack an account.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cluster.sh"
command -v openssl > /dev/null || skip "openssl is not installed"
serial() { openssl x509 -in "$work/$1/node/node.pem" -noout -serial; }
serial_is_not() { [ "$(serial "$1")" != "$2" ]; }
lease=(--set lease=3s --set fence=100ms --set drain=200ms --set lost_margin=100ms)

echo "-- a certificate is renewed after two thirds of its life, and nothing notices"
init
start_control --set node_certificate=9s
join_node n1 "$(new_token)" > /dev/null
before=$(serial n1)
start_node n1
wait_until "n1 is connected" is_connected n1
id=$(submit '{"command": ["sleep", "1000"]}')
wait_field "$id" state running
joined=$(grep -c node_joined "$control_log")
wait_until "the certificate is another" serial_is_not n1 "$before"
says "$work/n1.log" "certificate renewed"
[ "$(grep -c node_joined "$control_log")" = "$joined" ] || fail "the connection was not kept"
[ ! -e "$work/n1/node/node.key.next" ] || fail "a key was left behind"
has "$id" attempt 1 || fail "the task was started again"

echo "-- the renewed one is good for the next connection; control may have made them longer by then"
second=$(serial n1)
stop
start_control
wait_until "it is renewed for longer" serial_is_not n1 "$second"
kill_node n1
start_node n1
wait_until "n1 is back" is_connected n1
has "$id" attempt 1 || fail "the task was started again"

echo "-- a crash between the files of a renewal is mended"
kill_node n1
mv "$work/n1/node/node.key" "$work/n1/node/node.key.next"
openssl ecparam -name prime256v1 -genkey -noout -out "$work/n1/node/node.key" 2> /dev/null
chmod 600 "$work/n1/node/node.key"
start_node n1
wait_until "n1 is back" is_connected n1
cancel "$id"
ends "$id" cancelled

echo "-- an expired one is refused, and the node says what to do"
kill_node n1
stop
start_control --set node_certificate=12s
join_node brief "$(new_token)" > /dev/null
ends=$(openssl x509 -in "$work/brief/node/node.pem" -noout -enddate)
ends_s=$(date -d "${ends#*=}" +%s)
expired() { [ "$EPOCHSECONDS" -gt "$ends_s" ]; }
# A connection outlives its first certificate only if the certificate was renewed.
version=$("$gpumux" version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)
(
    cd "$work/brief"
    echo "{\"type\":\"hello\",\"protocol\":1,\"version\":\"$version\",\"attempts\":[],
        \"node\":{\"name\":\"brief\",\"instance\":\"i\",\"version\":\"$version\",
        \"labels\":{},\"devices\":[]}}" | tr -d '\n'
    echo
    until expired; do pause 0.1; done
    sleep 1
    echo '{"type":"beat","session":1,"number":1}'
    sleep 2
) | openssl s_client -connect "localhost:$port" -quiet -alpn gpumux-node/1 \
    -cert "$work/brief/node/node.pem" \
    -key "$work/brief/node/node.key" > "$work/held" 2> /dev/null || true
grep -q welcome "$work/held" || fail "it was not let in while it was good: $(cat "$work/held")"
grep -q 'has expired, and it did not renew it' "$work/held" || fail "$(cat "$work/held")"
wait_until "it has expired" expired
start_node brief
says "$work/brief.log" "certificate.*expired.*token create --role node"
is_away brief > /dev/null || fail "it was let in"
stop
start_control
join_node brief "$(new_token --name brief)" > /dev/null
kill_node brief
start_node brief
wait_until "it has joined again" is_connected brief
kill_node brief
stop

echo "-- a node replaces its own dead connection at once"
start_control
join_node twin "$(new_token)" > /dev/null
start_node twin
wait_until "it is connected" is_connected twin
kill_node twin
wait_until "it is away" is_away twin
# A connection of this node that is never used again and never closed.
jq -c --arg v "$version" '{type: "hello", protocol: 1, version: $v, attempts: [],
    node: {name: "twin", instance: .instance, version: $v, labels: {}, devices: []}}' \
    "$work/twin/node/node.json" > "$work/hello"
# Before it, several connections that end before a welcome: none counts as connected.
for _ in 1 2 3 4 5; do
    openssl s_client -connect "localhost:$port" -quiet -no_ign_eof -alpn gpumux-node/1 \
        -cert "$work/twin/node/node.pem" \
        -key "$work/twin/node/node.key" < "$work/hello" > /dev/null 2>&1 || true
done
wait_until "it is away again" is_away twin
new_token > /dev/null # its commit follows all of the above, so the log is complete
joined=$(grep -c 'node_joined.*node=twin' "$control_log")
(cd "$work/twin" && cat ../hello && exec sleep 1000) \
    | openssl s_client -connect "localhost:$port" -quiet -alpn gpumux-node/1 \
    -cert "$work/twin/node/node.pem" -key "$work/twin/node/node.key" > "$work/dead" 2> /dev/null &
says "$work/dead" welcome
start_node twin
says "$control_log" "node_joined.*node=twin"
joined_twice() { [ "$(grep -c 'node_joined.*node=twin' "$control_log")" = $((joined + 2)) ]; }
wait_until "it has joined again" joined_twice
! grep -q 'nothing was heard' "$control_log" || fail "the dead connection was waited for"
id=$(submit '{"command": ["sleep", "1000"]}')
wait_field "$id" state running

echo "-- of two machines of one name the second is refused, and the first untouched"
mkdir -p "$work/twin2/node"
cp -p "$work/twin/node/"{ca.pem,node.pem,node.key} "$work/twin2/node"
joined=$(grep -c node_joined "$control_log")
start_node twin2
says "$work/twin2.log" "node refused.*another node of the name twin"
is_connected twin > /dev/null || fail "the first was harmed"
[ "$(grep -c node_joined "$control_log")" = "$joined" ] || fail "the first had to come again"
has "$id" state running || fail "its task is $(field "$id" state)"
kill_node twin2
cancel "$id"
ends "$id" cancelled
stop

echo "-- a node that comes back after its tasks were requeued ends what it has"
start_control "${lease[@]}"
wait_until "twin is back" is_connected twin
id=$(submit '{"command": ["sleep", "1000"]}')
wait_field "$id" state running
join_node spare "$(new_token)" > /dev/null
# like a cut network: its supervisors live until the lease ends
kill -STOP "$(node_pid twin)"
start_node spare
wait_until "the spare node is connected" is_connected spare
wait_field "$id" attempt 2
wait_field "$id" state running
has "$id" node spare || fail "it runs on $(field "$id" node)"
kill -CONT "$(node_pid twin)"
wait_until "twin is back" is_connected twin
none_left() { [ -z "$(ls "$work/twin/node/attempts")" ]; }
wait_until "it has ended what it had" none_left
has "$id" attempt 2 || fail "it was started again"
has "$id" state running || fail "it is $(field "$id" state)"
cancel "$id"
ends "$id" cancelled

echo "-- an account is looked up on the node"
token=$("$gpumux" token create --role user --account ghost -q)
id=$(curl -sS --fail-with-body --cacert "$state/tls/ca.pem" -H "Authorization: Bearer $token" \
    "$url/v1/workloads" \
    -H 'Content-Type: application/json' \
    -d '{"command": ["true"], "directory": "/", "devices": 0, "retries": 5}' \
    | jq -r '.workloads[0].id')
ends "$id" failed start
field "$id" text | grep -q "no user 'ghost' on this node" || fail "$(field "$id" text)"
# On each of the two nodes, and on one of them again.
has "$id" attempt 3 || fail "what cannot work was tried $(field "$id" attempt) times"
if [ "$(id -u)" = 0 ]; then
    mkdir -m 777 "$work/open"
    token=$("$gpumux" token create --role user --account games -q)
    id=$(curl -sS --fail-with-body --cacert "$state/tls/ca.pem" -H "Authorization: Bearer $token" \
        "$url/v1/workloads" \
        -H 'Content-Type: application/json' \
        -d "{\"command\": [\"touch\", \"$work/open/made\"], \"directory\": \"/\", \"devices\": 0}" \
        | jq -r '.workloads[0].id')
    ends "$id" succeeded
    [ "$(stat -c %U "$work/open/made")" = games ] \
        || fail "it ran as $(stat -c %U "$work/open/made")"
else
    skip_part "a workload of a token's account: only root runs those of others"
fi
stop
