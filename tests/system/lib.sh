# What the system tests share: a daemon of their own in a fresh directory, waiting for conditions, and
# leaving nothing behind. A test sources it first:
#
#     . "$(dirname "$0")/lib.sh"
#
# Waits end with their condition; deadline_s only bounds a test that fails.
# shellcheck shell=bash
set -Eeuo pipefail

: "${GPUMUX_BUILD:?set it to the build that is to be tested}"
gpumux=$GPUMUX_BUILD/src/cli/gpumux
ask=$GPUMUX_BUILD/tests/system/ask
work=$(mktemp -d /tmp/gms.XXXXXX)
chmod 755 "$work"
state=$work/s
log=$work/daemon.log
daemon_pid=
deadline_s=60
export GPUMUX_SOCKET=$state/api.sock

# our_processes: pids that name this test's directory in their arguments, or in what they were started with (an MPS
# daemon does nowhere else), or work in it. All of them are this test's.
our_processes() {
    local files pid
    files=$(grep -lsaF "$work/" /proc/[0-9]*/cmdline /proc/[0-9]*/environ || true
        find /proc -maxdepth 2 -name cwd -lname "$work/*" 2> /dev/null || true)
    while IFS=/ read -r _ _ pid _; do # those that looked are gone by now
        [ -z "$pid" ] || [ "$pid" = $$ ] || [ "$pid" = "$BASHPID" ] || [ ! -e "/proc/$pid" ] || echo "$pid"
    done <<< "$files" | sort -u
}

finish() {
    local status=$?
    trap - EXIT ERR
    if [ $status != 0 ] && [ $status != 77 ]; then
        echo "-- the daemon's log" >&2
        tail -n 40 "$log" >&2 || true
    fi
    # shellcheck disable=SC2046
    [ -z "$(our_processes)" ] || kill -KILL $(our_processes) 2> /dev/null || true
    [ -z "$daemon_pid" ] || wait "$daemon_pid" 2> /dev/null || true
    rm -rf "$work" 2> /dev/null || { sleep 0.2; rm -rf "$work"; }
    exit $status
}
trap finish EXIT
trap 'echo "$0:$LINENO: failed: $BASH_COMMAND" >&2' ERR

fail() { echo "$0:${BASH_LINENO[0]}: $*" >&2; exit 1; }
skip() { echo "$*"; exit 77; }

# look_again LOOKS: a pause after so many looks. Who looks every 20 ms for long keeps a core busy, and slows down
# what it waits for.
look_again() {
    if [ "$1" -lt 10 ]; then sleep 0.02; elif [ "$1" -lt 20 ]; then sleep 0.1; else sleep 0.2; fi
}

# wait_until WHAT COMMAND...: until the command succeeds; WHAT is said if it never does. What the
# command says is not shown, so it must not fail().
wait_until() {
    local what=$1 end=$((SECONDS + deadline_s)) looks=0
    shift
    until "$@" > /dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "waited $deadline_s s in vain: $what"
        look_again $((looks++))
    done
}

# ---- the daemon ----

daemon_alive() { kill -0 "$daemon_pid" 2> /dev/null; }
daemon_ready_or_gone() { ! daemon_alive || curl -sf --unix-socket "$GPUMUX_SOCKET" http://gpumux/readyz; }

# start [OPTION...]: `gpumux up`, and waits until its node has joined. run_as: a prefix, if set.
start() {
    ${run_as[@]+"${run_as[@]}"} "$gpumux" up --state "$state" --set allow_root=true \
        --set beat=100ms --set resend=200ms --set backoff_min=20ms "$@" >> "$log" 2>&1 &
    daemon_pid=$!
    wait_until "the daemon is ready" daemon_ready_or_gone
    daemon_alive || fail "the daemon has ended: $(tail -n 3 "$log")"
    wait_until "the node has joined" node_joined
}
# device NUMBER FIELD: of the first node.
device() { "$ask" "$GPUMUX_SOCKET" /v1/nodes "nodes[0].devices[$1].$2"; }
node_joined() { [ "$("$ask" "$GPUMUX_SOCKET" /v1/nodes 'nodes[0].connected')" = true ]; }
# is_connected NODE, is_away NODE
is_connected() { [ "$("$ask" "$GPUMUX_SOCKET" "/v1/nodes/$1" connected)" = true ]; }
is_away() { [ "$("$ask" "$GPUMUX_SOCKET" "/v1/nodes/$1" connected)" = false ]; }

crash() { kill -KILL "$daemon_pid"; wait "$daemon_pid" 2> /dev/null || true; daemon_pid=; }
stop() {
    local pid=$daemon_pid
    kill -TERM "$pid"
    daemon_pid=
    wait "$pid" || fail "the daemon ended with status $?"
}

# ---- the API ----

# as UID COMMAND...: as that user, in the group of the same number.
as() { setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"; }

# api METHOD PATH [CURL OPTION...]: prints the body; fails on an answer of 400 or more.
api() { curl -sS --fail-with-body -X "$1" --unix-socket "$GPUMUX_SOCKET" "http://gpumux$2" "${@:3}"; }
# status METHOD PATH [CURL OPTION...]: prints the answer's status; the body is left in $work/body.
status() {
    curl -sS -o "$work/body" -w '%{http_code}' -X "$1" --unix-socket "$GPUMUX_SOCKET" \
        "http://gpumux$2" "${@:3}"
}
# expect_status CODE METHOD PATH [CURL OPTION...]
expect_status() {
    local got
    got=$(status "${@:2}")
    [ "$got" = "$1" ] || fail "$2 $3 answered $got instead of $1: $(cat "$work/body")"
}

# submit JSON: a workload's id. Without a GPU unless JSON says otherwise.
submit() {
    local body=$1
    [[ $body == *'"directory"'* ]] || body="{\"directory\": \"/\", ${body#*\{}"
    [[ $body == *'"devices"'* ]] || body="{\"devices\": 0, ${body#*\{}"
    "$ask" -d "$body" "$GPUMUX_SOCKET" /v1/workloads 'workloads[0].id'
}
show() { api GET "/v1/workloads/$1"; }
# field ID FIELD: as jq has it. The plain ones, which are asked for again and again, cost less.
field() {
    if [[ $2 =~ ^[][a-z0-9_.=]+$ ]]; then "$ask" "$GPUMUX_SOCKET" "/v1/workloads/$1" "$2"; else show "$1" | jq -r ".$2"; fi
}
has() { [ "$(field "$1" "$2")" = "$3" ]; }
# wait_field ID FIELD VALUE
wait_field() {
    local now
    now=$("$ask" "$GPUMUX_SOCKET" "/v1/workloads/$1" "$2" "$deadline_s" "$3") ||
        fail "workload $1: $2 is $now, not $3: $(show "$1" | jq -c .)"
}
# ends ID STATE [FAILURE]: waits for its end, which must be this one.
ends() {
    local now
    now=$("$ask" "$GPUMUX_SOCKET" "/v1/workloads/$1" state "$deadline_s" succeeded failed cancelled) ||
        fail "workload $1 is still $now: $(show "$1" | jq -c .)"
    [ "$now" = "$2" ] || fail "workload $1 ended as $now, not $2: $(show "$1" | jq -c .)"
    [ $# -lt 3 ] || has "$1" failure "$3" || fail "workload $1: failure is not $3: $(show "$1" | jq -c .)"
}
cancel() { api POST "/v1/workloads/$1/cancel" > /dev/null; }
# no_process TEXT: nobody has TEXT in its arguments. Write it so that the test itself has not.
no_process() { ! pgrep -f -- "$1"; }
