#!/bin/bash
# docs/troubleshooting.md is correct: quoted messages appear for their cause, and the advised
# commands fix the problem. A row that quotes a message or advises a command, and is not tested
# here, fails the test.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cluster.sh"
: "${GPUMUX_SOURCE:?set it to the top of the tree}"
command -v openssl > /dev/null || skip "openssl is not installed"
command -v sqlite3 > /dev/null || skip "sqlite3 is not installed"
page=$GPUMUX_SOURCE/docs/troubleshooting.md
tried=$work/tried
mkdir "$work/bin"
ln -s "$gpumux" "$work/bin/gpumux"
PATH=$work/bin:$PATH

# rows: prints "LINE<tab>FIRST CELL<tab>LAST CELL" of every row of the page's tables, without
# headers.
rows() {
    awk -F ' *[|] *' '/^\|---/ { body = 1; next } !/^\|/ { body = 0 }
        body { print FNR "\t" $2 "\t" $(NF - 1) }' "$page"
}
# row TEXT: prints the row whose first cell quotes or contains TEXT.
row() {
    local found
    found=$(rows | awk -F '\t' -v text="$1" '$2 == "`" text "`"')
    [ -n "$found" ] || found=$(rows | awk -F '\t' -v text="$1" 'index($2, text)')
    [ -n "$found" ] && [ "$(wc -l <<< "$found")" = 1 ] || fail "not one row of the page has: $1"
    cut -f 1 <<< "$found" >> "$tried"
    echo "$found"
}
# sees TEXT FILE: the file has the row's message; … matches anything.
sees() {
    local pattern
    row "$1" > "$work/row"
    pattern=$(sed -E 's/[][().*+?^${}|\\]/\\&/g; s/ ?… ?/.*/g; s/\b[A-Z]+(:[A-Z]+)?\b/[^ ]+/g' \
        <<< "$1")
    says "$2" "$pattern"
}
# elsewhere TEXT SCRIPT PATTERN: another test covers this row.
elsewhere() {
    row "$1" > "$work/row"
    grep -qE -- "$3" "$GPUMUX_SOURCE/$2" || fail "$2 does not show: $1"
}
# does TEXT [WORD=VALUE...]: runs the commands that the row advises, with these values for words in
# capitals. The output is in $work/did.
does() {
    local commands word
    commands=$(row "$1" | cut -f 3 | grep -oE '`gpumux [^`]+`' | tr -d '`')
    [ -n "$commands" ] || fail "no command is advised: $1"
    for word in "${@:2}"; do commands=${commands//${word%%=*}/${word#*=}}; done
    bash -ec "$commands" > "$work/did" 2>&1 || fail "$commands: $(cat "$work/did")"
}
# refused COMMAND...: the command fails; its output is in $work/said.
refused() { if "$@" > "$work/said" 2>&1; then fail "it was not refused: $*"; fi; }
# joins_with FILE NAME: a node of that name joins with the command in the file.
joins_with() {
    local token
    token=$(grep -o 'gmj_[0-9a-f]*' "$1")
    join_node "$2" "$token" > "$work/said" || fail "$(cat "$work/said")"
}
# told COMMAND...: refused over the network, with $token and the authority $trusted.
told() {
    refused env GPUMUX_URL="$url" GPUMUX_TOKEN="${token-}" GPUMUX_CA="${trusted-}" "$gpumux" "$@"
}
# described ID: writes the output of describe, for an ended or waiting workload.
described() { "$gpumux" describe "$1" > "$work/said"; }

echo "-- control"
refused "$gpumux" ps
sees 'cannot connect to …/api.sock' "$work/said"
refused "$gpumux" control --state "$state" --listen 0
sees 'there is no certificate authority' "$work/said"
row 'there is no certificate authority' | grep -qF '`gpumux control init --url https://HOST:PORT`' \
    || fail "another is advised"
init # init is this command
start_control --set queue_max=2
refused "$gpumux" control --state "$state"
sees 'is in use by another gpumux (pid …)' "$work/said"
for name in first second; do
    submit "{\"name\": \"$name\", \"command\": [\"true\"]}" > /dev/null
done
expect_status 429 POST /v1/workloads '{"command": ["true"], "directory": "/"}'
sees 'queue-full' "$work/body"
for name in first second; do does 'queue-full' NAME=$name; done
submit '{"name": "third", "command": ["true"]}' > /dev/null
stop
start_control
curl -s "http://localhost:$port/" > /dev/null || true
sees 'connection refused … plain HTTP, where TLS is spoken' "$control_log"
sleep 1.1 # one such line a second
openssl s_client -connect "localhost:$port" -tls1_2 < /dev/null > /dev/null 2>&1 || true
sees 'connection refused … older than TLS 1.3' "$control_log"

echo "-- nodes"
refused "$gpumux" node --state "$work/n1" --control "$url" "${node_settings[@]}"
sees 'has not joined' "$work/said"
does 'has not joined'
cp "$work/did" "$work/line"
refused join_node n1 "gmj_$(printf '0%.0s' {1..64})"
sees 'this token is not known' "$work/said"
does 'this token is not known'
joins_with "$work/did" n1
start_node n1
wait_until "n1 is connected" is_connected n1
refused join_node n2 "$(new_token)" --name n1
sees 'there is a node of the name … already' "$work/said"
refused join_node n2 "$(new_token)" --ca "sha256:$(printf '0%.0s' {1..64})"
sees "the other side's authority does not have the expected fingerprint" "$work/said"
mkdir -p "$work/n2/node"
cp -p "$work/n1/node/"{ca.pem,node.pem,node.key} "$work/n2/node"
refused "$gpumux" node --state "$work/n2" --control "$url" "${node_settings[@]}" --set node_name=n2
sees 'the certificate of this node is for the name …' "$work/said"
rm -f "$work/n2/node/"{ca.pem,node.pem,node.key} # as the row advises
joins_with "$work/line" n2
start_node n2
wait_until "n2 is connected" is_connected n2
mkdir -p "$work/twin/node"
cp -p "$work/n2/node/"{ca.pem,node.pem,node.key} "$work/twin/node"
start_node twin
sees 'another node of the name …' "$work/twin.log"
kill_node twin
kill_node n2
wait_until "n2 is not connected" is_away n2
"$gpumux" nodes > "$work/said"
row 'a node is `not connected`' > "$work/row"
says "$work/said" ' not connected '
"$gpumux" control init --state "$work/other" --url https://localhost:1 > "$work/other.line" 2>&1
"$gpumux" control --state "$work/other" --listen 0 > "$work/other.log" 2>&1 &
says "$work/other.log" 'network .* port [0-9]+'
# The URL is that of another cluster.
url=https://localhost:$(sed -nE 's/^  network .* port ([0-9]+)$/\1/p' "$work/other.log") \
    start_node n2
sees "the other side's certificate is not accepted" "$work/n2.log"
kill_node n2
url=https://localhost:1 start_node n2
sees 'the connection failed' "$work/n2.log"
kill_node n2
# Another machine takes n2's place, by the commands of the row.
does 'there is a node of the name … already' NAME=n2
rm -r "$work/n2"
joins_with "$work/did" n2
elsewhere 'the certificate of this node has expired' tests/system/certificates.sh \
    'certificate.\*expired.\*token create --role node'

echo "-- commands from another machine"
token=gmx_$(printf '0%.0s' {1..64})
trusted= told ps
sees 'no certificate authority is known for https://…' "$work/said"
trusted=$fingerprint
token= told ps
sees 'show a token' "$work/said"
told ps
says "$work/said" 'this token is not known'
does 'show a token' NAME=ghost
token=$(grep -o 'gmx_[0-9a-f]*' "$work/did")
id=$(GPUMUX_URL=$url GPUMUX_TOKEN=$token GPUMUX_CA=$trusted "$gpumux" submit -q -C / -d 0 -- true)
ends "$id" failed start
described "$id"
sees "there is no user '…' on this node" "$work/said"
told token list
sees 'this takes the role …' "$work/said"
install -m 644 <(echo "$token") "$work/token"
refused env -u GPUMUX_TOKEN GPUMUX_TOKEN_FILE="$work/token" GPUMUX_URL="$url" GPUMUX_CA="$trusted" \
    "$gpumux" ps
sees 'other users may read …/token' "$work/said"
bash -c "$(grep -o 'chmod 600 .*' "$work/said")" # the command in the message
GPUMUX_TOKEN_FILE=$work/token GPUMUX_URL=$url GPUMUX_CA=$trusted "$gpumux" ps > /dev/null

echo "-- it failed"
id=$(submit '{"command": "echo missing >&2; exit 3"}')
ends "$id" failed
described "$id"
sees 'exit N' "$work/said"
does 'exit N' ID="$id"
grep -q missing "$work/did" || fail "the output is not shown: $(cat "$work/did")"
id=$(submit '{"command": "echo dying; kill -9 $$"}')
ends "$id" failed
described "$id"
sees 'signal N' "$work/said"
does 'signal N' ID="$id"
grep -q dying "$work/did" || fail "the output is not shown: $(cat "$work/did")"
id=$(submit '{"name": "nothing", "command": ["no-such-command"]}')
ends "$id" failed start
described "$id"
sees 'start' "$work/said"
grep -q no-such-command "$work/said" || fail "the command is not named: $(cat "$work/said")"
id=$(submit '{"command": ["true"], "after": ["nothing"]}')
ends "$id" failed dependency
described "$id"
sees 'dependency' "$work/said"
id=$(submit '{"command": ["sleep", "1000"], "time_limit": "100ms"}')
ends "$id" failed timeout
described "$id"
sees 'timeout' "$work/said"

echo "-- it waits"
id=$(submit '{"command": ["true"], "devices": 1, "model": "NoSuch"}')
described "$id"
row 'labels, a model' > "$work/row"
grep -qE 'no node has|model' "$work/said" || fail "$(cat "$work/said")"
does 'labels, a model'
grep -q n1 "$work/did" || fail "$(cat "$work/did")"
cancel "$id"
"$gpumux" drain n1
id=$(submit '{"command": ["true"]}')
described "$id"
grep -q 'drained' "$work/said" || fail "no word on the drain: $(cat "$work/said")"
does 'nodes that are drained, held or not connected' NODE=n1
ends "$id" succeeded
elsewhere 'error `store`' tests/system/trouble.sh 'problem:store'
elsewhere 'a node runs many CPU-only workloads, the limit' tests/system/limits.sh cpu_tasks_max=2
elsewhere 'full nodes' tests/system/limits.sh attempts_max=4
elsewhere 'nodes where a start failed' src/cluster/doubt_test.c 'on nodes where a start failed'
elsewhere 'kept for a workload that waits for room' src/cluster/keep_test.c 'which waits for room'
elsewhere 'takes no new tasks now' tests/system/monitor.sh '"\$gpumux" enable'
elsewhere 'waiting for the next free device ends sooner' tests/system/cli_commands.sh \
    '"\$gpumux" explain burning'
elsewhere 'devices have room, but …' tests/system/cli_commands.sh \
    '"\$gpumux" explain burning'
elsewhere "CUDA's error 802" tests/shim/hosts.sh 'an agent that stays away'
elsewhere '… allocations were refused by its quota of …' tests/system/protection.sh \
    'allocation was refused by its quota of'
elsewhere 'fault' tests/system/errors.sh 'ends "\$task" failed fault'
elsewhere '… in one of all that shared the device' tests/system/errors.sh \
    '"in one of all that shared the device"'
elsewhere 'the cause begins with `Xid`' tests/system/errors.sh '"\$gpumux" enable'
elsewhere 'MPS was lost: …' tests/system/errors.sh 'device_alarm\.\*MPS was lost'
elsewhere 'the self-test of the device failed' src/device/repair.c \
    'the self-test of the device failed'
elsewhere 'without MPS, its workloads take turns: …' tests/system/mps_program.sh \
    'its workloads take turns'
elsewhere 'healthy (repair)' tests/system/fault.sh 'healthy \(repair\)'
elsewhere 'libgpumux.so.0: cannot open shared object file' scripts/deb-test \
    'cannot open shared object file'
elsewhere 'a service stays `starting`' tests/system/services.sh 'state starting'
stop
start_control --set lease=1s --set beat=100ms
wait_until "n1 is back" is_connected n1
kill -STOP "$(node_pid n1)" # like a cut network
sees 'node connection ended … nothing was heard of it' "$control_log"
kill_node n1
stop

echo "-- its state"
cp "$state/gpumux.db" "$work/copy"
sqlite3 "$state/gpumux.db" 'PRAGMA user_version = 1000000'
refused "$gpumux" control --state "$state"
sees 'written by a newer gpumux' "$work/said"
dd if=/dev/urandom of="$state/gpumux.db" bs=512 count=4 conv=notrunc status=none
refused "$gpumux" control --state "$state"
sees 'the state … is damaged' "$work/said"
row 'the state … is damaged' | grep -qF '`gpumux state check`' || fail "another is advised"
refused "$gpumux" state check --state "$state"
install -m 600 "$work/copy" "$state/gpumux.db"
rm -f "$state"/gpumux.db-*
"$gpumux" state check --state "$state" > /dev/null
start_control
id=$(submit '{"name": "broken", "command": ["true"]}')
submit '{"name": "many", "command": ["true"], "array": 5}' > /dev/null
stop
sqlite3 "$state/gpumux.db" "UPDATE workloads SET status = 'lost' WHERE id = $id"
start_control
described "$id"
sees 'its record cannot be read: …' "$work/said"
refused "$gpumux" state check --state "$state"
says "$work/said" "the status of workload $id is not JSON"
"$gpumux" state export --state "$state" > "$work/said"
says "$work/said" '"name":"broken".*"state":"failed".*"status":"lost"'
stop
sqlite3 "$state/gpumux.db" "UPDATE workloads SET status = 'lost' WHERE base = 'many'"
refused "$gpumux" control --state "$state"
sees 'live workloads that cannot be read: …' "$work/said"
install -m 600 "$work/copy" "$state/gpumux.db"
rm -f "$state"/gpumux.db-*
start_control
stop

left=$(rows | awk -F '\t' '$2 ~ /`/ || $3 ~ /`gpumux / { print $1 }' | grep -vxFf "$tried" || true)
[ -z "$left" ] || fail "rows of $page that were not tried: $(tr '\n' ' ' <<< "$left")"
