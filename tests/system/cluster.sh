# A control on the network and its nodes, each with its own state, for system tests. Sourced after
# lib.sh, whose functions then use this control.
# shellcheck shell=bash
state=$work/c
export GPUMUX_SOCKET=$state/api.sock
port=0
control_log=$work/control.log
log=$control_log # printed when the test fails
node_settings=(--without-devices --set allow_root=true --set beat=100ms --set cgroup=off)

# init: prepares the cluster; $joins is the command with which a node joins.
init() {
    joins=$("$gpumux" control init --state "$state" \
        --url https://localhost:7443 2> "$work/init.said")
    fingerprint=$(sed -E 's/.*--ca ([^ ]+).*/\1/' <<< "$joins")
}
# start_control [OPTION...]: on the same port every time.
start_control() {
    "$gpumux" control --state "$state" --listen "$port" --set allow_root=true --set resend=200ms \
        --set backoff_min=20ms "$@" >> "$control_log" 2>&1 &
    daemon_pid=$!
    wait_until "control is ready" daemon_ready_or_gone
    daemon_alive || fail "control has ended: $(tail -n 3 "$control_log")"
    port=$(sed -nE 's/^  network .* port ([0-9]+)$/\1/p' "$control_log" | tail -n 1)
    url=https://localhost:$port
}
# new_token [OPTION...]: prints a token with which a node joins.
new_token() { "$gpumux" token create --role node -q "$@"; }
# join_node NODE TOKEN [OPTION...]: joins without starting the node.
join_node() {
    timeout $deadline_s "$gpumux" node --state "$work/$1" --control "$url" --ca "$fingerprint" \
        --token "$2" --join-only \
        --name "$1" "${@:3}" 2>&1
}
# start_node STATE [OPTION...]: starts a node that has joined. Its pid is in $work/STATE.pid.
start_node() {
    "$gpumux" node --state "$work/$1" --control "$url" "${node_settings[@]}" "${@:2}" \
        >> "$work/$1.log" 2>&1 &
    echo $! > "$work/$1.pid"
}
node_pid() { cat "$work/$1.pid"; }
kill_node() { kill -KILL "$(node_pid "$1")"; wait "$(node_pid "$1")" 2> /dev/null || true; }
# says FILE PATTERN: waits until the file has the pattern.
says() { wait_until "$1 says '$2'" grep -qE -- "$2" "$1"; }
