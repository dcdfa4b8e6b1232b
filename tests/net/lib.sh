# Functions for tests of a real network: control and nodes in namespaces of their own, on cables
# that can be cut (switch.c). Needs root; a test is skipped without. A test sources it first:
#
#     . "$(dirname "$0")/lib.sh"
#     network n1 n2
#     start_control; add_node n1; add_node n2
#
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/../system/lib.sh"

net=$work/net
url=https://10.77.0.1:7443
journal=$work/journal
task=$GPUMUX_BUILD/tests/system/kill_task
declare -A node_pid
# Short, so that a test is; long enough for a slow machine's beats.
settings=(--set allow_root=true --set beat=100ms)
control_settings=(--set resend=200ms --set backoff_min=20ms --set cpu_tasks_max=768)
short_lease=(--set lease=2s --set fence=200ms --set drain=300ms --set lost_margin=300ms)

# network NAME...: namespaces for control (c) and these nodes.
network() {
    mkdir "$net"
    "$GPUMUX_BUILD/tests/net/switch" "$net" "${GPUMUX_SEED:-1}" c "$@" > "$work/switch.out" &
    local pid=$! status=0
    until [ -e "$net/ready" ]; do
        if ! kill -0 $pid 2> /dev/null; then
            wait $pid || status=$?
            [ $status = 77 ] && skip "$(cat "$work/switch.out")"
            fail "no network: $(cat "$work/switch.out")"
        fi
        pause 0.02
    done
    disown $pid # nobody has to be told when it is killed at the end
}
# cable COMMAND NAME [NUMBER]: as switch.c says.
cable() { echo "$*" > "$net/cables"; }
enter() { nsenter --net="$net/$1" -- "${@:2}"; }

# start_control [OPTION...]: with a listener for nodes. clock: a prefix, if set.
start_control() {
    [ -e "$state" ] || "$gpumux" control init --state "$state" --url $url > /dev/null 2>> "$log"
    nsenter --net="$net/c" -- ${clock[@]+"${clock[@]}"} "$gpumux" control --state "$state" \
        --listen 10.77.0.1:7443 "${settings[@]}" "${control_settings[@]}" "$@" >> "$log" 2>&1 &
    daemon_pid=$!
    wait_until "control is ready" daemon_ready_or_gone
    daemon_alive || fail "control has ended: $(tail -n 3 "$log")"
}

# start_node NAME [OPTION...]: its log is $work/NAME.log.
start_node() {
    local name=$1
    nsenter --net="$net/$name" -- ${clock[@]+"${clock[@]}"} "$gpumux" node --state "$work/$name" \
        --control $url --without-devices --set node_name="$name" "${settings[@]}" "${@:2}" \
        >> "$work/$name.log" 2>&1 &
    node_pid[$name]=$!
    disown $!
}
# invite [OPTION...]: a one-time token, as the options that a node joins with.
invite() {
    local line
    line=$("$gpumux" token create --role node "$@" 2>> "$log")
    read -ra invitation <<< "${line#*--control $url}"
}
# add_node NAME [OPTION...]: with a token of its own, and waits until it has joined.
add_node() {
    invite
    start_node "$@" "${invitation[@]}"
    wait_until "$1 has joined" is_connected "$1"
}
node_ended() { ! kill -0 "${node_pid[$1]}"; }
# says NAME TEXT [TIMES]: its log has TEXT, that often at least.
says() { [ "$(grep -c -- "$2" "$work/$1.log")" -ge "${3:-1}" ]; }

# submit_task LABEL MS: a task that writes its life into the journal; prints its id.
submit_task() {
    submit "{\"name\": \"$1\", \"command\": $(json_words "$task" "$journal" "$1" 2 "$2")}"
}
# journal_says WHAT LABEL ATTEMPT
journal_says() { grep -q "^$1 $2 $3 " "$journal"; }
# life LABEL: its lines of the journal, as "start1 end1 start2".
life() { awk -v label="$1" '$2 == label { printf "%s%s%s", sep, $1, $3; sep = " " }' "$journal"; }
# pid_of LABEL ATTEMPT: as it wrote it.
pid_of() {
    awk -v label="$1" -v attempt="$2" '$1 == "start" && $2 == label && $3 == attempt { print $4 }' \
        "$journal"
}
attempts_of() { field "$1" 'attempts[].number' | grep -c .; }
# settled NAME: nothing of what ran there is left to be told.
settled() { [ -z "$(ls "$work/$1/node/attempts")" ]; }
