#!/bin/bash
# Trouble around the daemon: each time a clear error, and no loss.
. "$(dirname "$0")/lib.sh"
stage_build

# refused PATTERN COMMAND...: the command fails by itself, and prints PATTERN.
refused() {
    local pattern=$1 said
    shift
    if said=$(timeout $deadline_s "$@" 2>&1); then fail "it was not refused: $*"; fi
    grep -qE -- "$pattern" <<< "$said" || fail "refused, but it says: $said"
}
up=("$gpumux" up --emulate 1xT4 --set allow_root=true)

echo "-- a full disk"
start --emulate 1xT4
before=$(submit '{"command": ["true"]}')
ends "$before" succeeded
node=$(api GET /v1/nodes 'nodes[0].name')
api POST "/v1/nodes/$node/drain" > /dev/null
waiting=$(submit '{"name": "waiting", "command": ["true"]}')
stop
# A limit on the size of files simulates a full disk for any user; without the signal.
trap '' XFSZ
start --emulate 1xT4
trap - XFSZ
prlimit --pid "$daemon_pid" --fsize=4096:unlimited
expect_status 503 POST /v1/workloads \
    '{"name": "refused", "command": ["true"], "directory": "/", "devices": 0}'
problem=$("$ask" -f "$work/body" type,detail)
[[ $problem == "urn:gpumux:problem:store"$'\n'?* && $problem != *$'\n'null ]] \
    || fail "$(cat "$work/body")"
has "$before" state succeeded || fail "what was there can no longer be read"
prlimit --pid "$daemon_pid" --fsize=unlimited:unlimited
submit_works() { after=$(submit '{"command": ["true"]}') && echo "$after" > "$work/after"; }
wait_until "the disk has room again and submitting works" submit_works
[ "$(api GET '/v1/workloads?name=refused' workloads)" = '[]' ] || fail "refused, yet there"
wait_until "the node is back" node_joined
api POST "/v1/nodes/$node/undrain" > /dev/null
ends "$waiting" succeeded
ends "$(cat "$work/after")" succeeded

echo "-- a full disk, for longer than tasks run without a lease"
stop
trap '' XFSZ
start --emulate 1xT4 --set lease=3s --set fence=3s
trap - XFSZ
held=$(submit "{\"command\": $(json_shell "echo \$\$ > $work/held; exec sleep 1000")}")
ending=$(submit "{\"command\": $(json_shell "until [ -e $work/end ]; do sleep 0.1; done")}")
wait_field "$held" state running
wait_field "$ending" state running
wait_until "the task has said who it is" test -s "$work/held"
prlimit --pid "$daemon_pid" --fsize=4096:unlimited
lease_ms() { od -A n -t u8 "$state/node/lease"; }
lease_then=$(lease_ms)
expect_status 503 POST /v1/workloads '{"command": ["true"], "directory": "/", "devices": 0}'
# After such a long stop the node considers control dead, and says hello again.
kill -STOP "$daemon_pid"
sleep 1.5
kill -CONT "$daemon_pid"
touch "$work/end"
outlived() { [ "$(lease_ms)" -gt $((lease_then + 9000)) ] || ! kill -0 "$(cat "$work/held")"; }
wait_until "the task has run for longer than the lease and the fence" outlived
kill -0 "$(cat "$work/held")" || fail "the task was ended: $(show "$held")"
has "$ending" state running || fail "its end is shown, yet cannot have been stored"
expect_status 503 POST "/v1/workloads/$held/cancel"
[ "$("$ask" -f "$work/body" type)" = urn:gpumux:problem:store ] || fail "$(cat "$work/body")"
prlimit --pid "$daemon_pid" --fsize=unlimited:unlimited
ends "$ending" succeeded
[ "$(field "$ending" attempt)/$(field "$held" attempt)/$(field "$held" state)" = 1/1/running ] \
    || fail "$(show "$held")"
told '"stored_again".*nothing could be stored for' > /dev/null \
    || fail "no event tells that the store works again"
cancel "$held"
ends "$held" cancelled

echo "-- no descriptor left"
prlimit --pid "$daemon_pid" --nofile=0:
"$ask" "$state/node.sock" / > /dev/null 2>&1 &
knocks=$!
wait_until "the daemon says that it can take no node" grep \
    -q 'node connection accept failed.*Too many open files' "$log"
prlimit --pid "$daemon_pid" --nofile=1024:
wait "$knocks" || true # the client is no node, but was accepted
wait_until "the node is there" node_joined

echo "-- the state is in use"
refused "$daemon_pid" "${up[@]}" --state "$state"
has "$before" state succeeded || fail "the first one suffered"

echo "-- the socket is in use"
refused "another program listens" "${up[@]}" --state "$work/other" --listen "unix:$state/api.sock"
has "$before" state succeeded || fail "the first one suffered"
stop

echo "-- damaged state"
dd if=/dev/urandom of="$state/gpumux.db" bs=512 count=4 conv=notrunc status=none
rm -f "$state"/gpumux.db-*
cp "$state/gpumux.db" "$work/damaged"
refused "gpumux.db" "${up[@]}" --state "$state"
cmp "$state/gpumux.db" "$work/damaged" || fail "the damaged state was touched"

echo "-- state that cannot be written"
mkdir -m 755 "$work/locked"
refused "$work/locked" setpriv --reuid 65534 --regid 65534 --clear-groups env "$gpumux" up \
    --emulate 1 --state "$work/locked/state"

echo "-- no GPU, wrong options"
if ! ls /dev/nvidia[0-9]* > /dev/null 2>&1; then
    refused "--emulate" "$gpumux" up --state "$work/none"
fi
refused "4xQ9" "$gpumux" up --state "$work/none" --emulate 4xQ9
refused "no_such_key" "$gpumux" up --state "$work/none" --emulate 1 --set no_such_key=1

echo "-- a full queue"
state=$work/q GPUMUX_SOCKET=$work/q/api.sock
start --emulate 1xT4 --set queue_max=3
node=$(api GET /v1/nodes 'nodes[0].name')
api POST "/v1/nodes/$node/drain" > /dev/null
for _ in 1 2 3; do queued=$(submit '{"command": ["true"]}'); done
expect_status 429 POST /v1/workloads \
    '{"command": ["true"], "directory": "/", "devices": 0}'
api POST "/v1/nodes/$node/undrain" > /dev/null
ends "$queued" succeeded
ends "$(submit '{"command": ["true"]}')" succeeded
stop
