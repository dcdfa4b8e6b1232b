#!/bin/bash
# gpumux under a service manager: the notifications and their order, through a path and an abstract
# socket; and the daemons with no more capabilities than the units of deploy/systemd leave.
. "$(dirname "$0")/lib.sh"
: "${GPUMUX_SOURCE:?set it to the top of the tree}"
units=$GPUMUX_SOURCE/deploy/systemd

# listen SOCKET: starts a manager; its messages are in $heard.
listen() {
    heard=$work/heard.$((listeners = ${listeners:-0} + 1))
    export NOTIFY_SOCKET=$1
    "$GPUMUX_BUILD/tests/system/notify_listener" "$1" "$heard" &
    listener_pid=$!
    wait_until "the manager listens" test -e "$heard"
}
deafen() { kill "$listener_pid"; wait "$listener_pid" 2> /dev/null || true; unset NOTIFY_SOCKET; }
hears() { wait_until "the manager hears $1" grep -qxF -- "$1" "$heard"; }
times() { grep -cxF -- "$1" "$heard" || true; }

# capabilities_of UNIT: prints its CapabilityBoundingSet= in setpriv's notation.
capabilities_of() {
    sed -n 's/^CapabilityBoundingSet=//p' "$units/$1.service" | awk '
        /^$/ { printf "-all"; exit }
        /^~/ {
            sub(/^~/, "")
            for (i = 1; i <= NF; i++) printf "%s-%s", (n++ ? "," : ""), tolower(substr($i, 5))
        }'
}
# confine UNIT: daemons started from now on have the unit's capabilities.
confine() {
    local set
    set=$(capabilities_of "$1")
    [ -n "$set" ] || fail "$1 says nothing about capabilities"
    run_as=()
    [ "$(id -u)" != 0 ] || run_as=(setpriv --bounding-set "$set" --inh-caps "$set")
}

# All in one: ready when the node has joined, and not before; the end is announced.
confine gpumux
listen "$work/notify"
start --without-devices
hears READY=1
hears 'STATUS=joined control'
awk '/^READY=1$/ { ready = NR } /joining$/ { joining = NR }
    END { exit !(joining && joining < ready) }' "$heard" \
    || fail "ready before the node joined: $(cat "$heard")"
if [ "$(id -u)" = 0 ]; then
    id=$(submit '{"name":"who","command":["id","-u"],"user":"nobody"}')
    ends "$id" succeeded
else
    skip_part "a workload of another user: only root runs those"
fi
stop
hears STOPPING=1
[ "$(times READY=1)" = 1 ] || fail "ready is said once"
deafen

# Apart: each is ready by itself, and the node reports when control comes and goes.
listen "@gpumux-service-test-$$"
node_log=$work/node.log
confine gpumux-node
"${run_as[@]}" "$gpumux" node --state "$state" --without-devices --set allow_root=true --set \
    beat=100ms \
    > "$node_log" 2>&1 &
hears READY=1
hears 'STATUS=connecting to control'
deafen
export NOTIFY_SOCKET=$work/notify2
confine gpumux-control
listen "$NOTIFY_SOCKET"
"${run_as[@]}" "$gpumux" control --state "$state" --set allow_root=true --set resend=200ms \
    > "$log" 2>&1 &
daemon_pid=$!
hears 'STATUS=the API listens'
[ "$(times READY=1)" = 1 ] || fail "control is not ready: $(cat "$heard")"
wait_until "the node has joined" node_joined
ends "$(submit '{"name":"confined","command":["true"]}')" succeeded
stop
hears STOPPING=1

# A missing manager does not prevent the start.
deafen
export NOTIFY_SOCKET=$work/nobody
run_as=()
state=$work/s2
export GPUMUX_SOCKET=$state/api.sock
start --without-devices
grep -q 'service manager connection failed' "$log" \
    || fail "the log does not mention the missing manager"
stop
