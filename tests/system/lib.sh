# Common functions of the system tests: a daemon in a fresh directory, waits for conditions, and
# cleanup. Sourced first:
#
#     . "$(dirname "$0")/lib.sh"
#
# Waits end with their condition; deadline_s only limits a failing test.
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
deadline_s=150 # a virtual machine may stall for a minute
export GPUMUX_SOCKET=$state/api.sock

# our_processes: prints pids of processes with this test's directory in their arguments, in their
# initial environment (an MPS daemon has it only there), or as working directory.
our_processes() {
    local files pid
    files=$(grep -lsaF "$work/" /proc/[0-9]*/cmdline /proc/[0-9]*/environ || true
        find /proc -maxdepth 2 -name cwd -lname "$work/*" 2> /dev/null || true)
    while IFS=/ read -r _ _ pid _; do # the pipeline's own processes have ended by now
        [ -z "$pid" ] || [ "$pid" = $$ ] || [ "$pid" = "$BASHPID" ] || [ ! -e "/proc/$pid" ] \
            || echo "$pid"
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
say() { echo "-- $*"; }
# skip_part WHY: the test continues without one part, which is counted (scripts/results.awk).
skip_part() { echo "skipped: $*"; }

# exits CODE COMMAND...: fails on another exit code. The output is left in $work/out and $work/err.
exits() {
    local wanted=$1 got=0
    "${@:2}" > "$work/out" 2> "$work/err" || got=$?
    [ "$got" = "$wanted" ] \
        || fail "exit code $got instead of $wanted: ${*:2}: $(cat "$work/out" "$work/err")"
}
# said TEXT: fails unless the command of the last exits() printed TEXT.
said() {
    grep -q -- "$1" "$work/out" "$work/err" \
        || fail "'$1' was not said: $(cat "$work/out" "$work/err")"
}

# pause SECONDS: like sleep, but without a process: nothing ever arrives on this descriptor.
exec {never}<> <(:)
pause() { ! read -r -t "$1" -u "$never"; }

# look_again LOOKS: pauses after this number of looks. A long poll every 20 ms would keep a core
# busy and slow down the condition.
look_again() {
    if [ "$1" -lt 10 ]; then pause 0.02; elif [ "$1" -lt 20 ]; then pause 0.1; else pause 0.2; fi
}

# wait_until WHAT COMMAND...: waits until the command succeeds; WHAT is printed on failure. The
# command's output is discarded, so it must not call fail().
wait_until() {
    local what=$1 end=$((SECONDS + deadline_s)) looks=0
    shift
    until "$@" > /dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "waited $deadline_s s in vain: $what"
        look_again $((looks++))
    done
}

# writable_cgroup: prints the directory of cgroup v2 in which this process may make groups that the
# kernel can end. Doctor finds the directory as a node does (system/processes compares the two).
writable_cgroup() {
    { "$gpumux" doctor --state "$state" || true; } \
        | sed -n 's/^ok .* cgroup v2 is writable at //p' | grep .
}

# stage_build: from here on, the programs and libraries are copies in $work. A test that runs any of
# them as another user needs the copies, because the build may be in a home directory that only its
# owner can enter.
stage_build() {
    local staged=$work/build
    mkdir "$staged"
    (cd "$GPUMUX_BUILD" \
        && cp --parents -rL src/cli/gpumux lib emu/bin emu/lib*.so* workloads/gpumux-burn \
        tests/system/ask "$staged")
    chmod -R go=u-w "$staged"
    GPUMUX_BUILD=$staged gpumux=$staged/src/cli/gpumux ask=$staged/tests/system/ask
}

# ---- the daemon ----

daemon_alive() { kill -0 "$daemon_pid" 2> /dev/null; }
daemon_ready_or_gone() { ! daemon_alive || "$ask" "$GPUMUX_SOCKET" /readyz; }

# start [OPTION...]: runs `gpumux up` and waits until its node has joined. run_as: a prefix, if set.
# cpu_tasks_max: a machine with few cores runs all CPU-only workloads of a test at once.
start() {
    ${run_as[@]+"${run_as[@]}"} "$gpumux" up --state "$state" --set allow_root=true \
        --set beat=100ms --set resend=200ms --set backoff_min=20ms \
        --set cpu_tasks_max=768 "$@" >> "$log" 2>&1 &
    daemon_pid=$!
    wait_until "the daemon is ready" daemon_ready_or_gone
    daemon_alive || fail "the daemon has ended: $(tail -n 3 "$log")"
    wait_until "the node has joined" node_joined
}
# device NUMBER FIELD: prints a field of a device of the first node.
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

# as UID COMMAND...: runs it as that user, in the group of the same number. Uses env, because
# setpriv itself keeps capabilities until its exec: it would find a program that the user cannot
# reach.
as() { setpriv --reuid "$1" --regid "$1" --clear-groups env "${@:2}"; }

# api METHOD PATH [FIELD]: prints the body, or a field of it (see ask.c); fails without a successful
# response.
api() { "$ask" -X "$1" "$GPUMUX_SOCKET" "${@:2}"; }
# status METHOD PATH [JSON]: prints the response's status; the body is left in $work/body.
status() { "$ask" -s "$work/body" -X "$1" ${3:+-d "$3"} "$GPUMUX_SOCKET" "$2"; }
# expect_status CODE METHOD PATH [JSON]
expect_status() {
    local got
    got=$(status "${@:2}")
    [ "$got" = "$1" ] || fail "$2 $3 answered $got instead of $1: $(cat "$work/body")"
}

# json_words WORD...: prints an array of these strings.
json_words() {
    local word list=
    for word; do
        word=${word//\\/\\\\} word=${word//\"/\\\"}
        list+=", \"${word//$'\n'/\\n}\""
    done
    echo "[${list#, }]"
}
# json_shell COMMAND: prints an array that runs the command in a shell.
json_shell() { json_words sh -c "$1"; }
# json_with JSON [NAME VALUE]...: adds these members to the object unless it has them.
json_with() {
    local json=$1
    shift
    while [ $# -gt 0 ]; do
        if [[ $json =~ ^\{\ *\}$ ]]; then
            json="{\"$1\": $2}"
        elif [[ $json != *"\"$1\":"* ]]; then
            json="{\"$1\": $2, ${json#*\{}"
        fi
        shift 2
    done
    echo "$json"
}

# submit JSON: prints a workload's id. No GPU unless JSON requests one.
submit() {
    "$ask" -d "$(json_with "$1" directory '"/"' devices 0)" "$GPUMUX_SOCKET" /v1/workloads \
        'workloads[0].id'
}
show() { api GET "/v1/workloads/$1"; }
# field ID FIELD
field() { "$ask" "$GPUMUX_SOCKET" "/v1/workloads/$1" "$2"; }
has() { [ "$(field "$1" "$2")" = "$3" ]; }
# wait_field ID FIELD VALUE
wait_field() {
    local now
    now=$("$ask" "$GPUMUX_SOCKET" "/v1/workloads/$1" "$2" "$deadline_s" "$3") ||
        fail "workload $1: $2 is $now, not $3: $(show "$1")"
}
# ends ID STATE [FAILURE]: waits for the workload's end, which must be this one.
ends() {
    local now
    now=$("$ask" "$GPUMUX_SOCKET" "/v1/workloads/$1" state "$deadline_s" succeeded failed \
        cancelled) ||
        fail "workload $1 is still $now: $(show "$1")"
    [ "$now" = "$2" ] || fail "workload $1 ended as $now, not $2: $(show "$1")"
    [ $# -lt 3 ] || has "$1" failure "$3" || fail "workload $1: failure is not $3: $(show "$1")"
}
# told TEXT [ID]: prints the events, of a workload, in which grep finds TEXT: each a JSON object,
# with `what` before `text`.
told() { api GET "/v1/events${2:+?workload=$2}" 'events[]' | grep -E -- "$1"; }
# output ID: prints the workload's output, each line with its time, stream and kind.
output() { api GET "/v1/workloads/$1/logs"; }
cancel() { api POST "/v1/workloads/$1/cancel" > /dev/null; }
# freeze DEVICE COMMAND...: stops the processes that the command prints while they hold no lock of
# that emulated device, because MPS would wait for the lock and seem to hang.
freeze() { wait_until "${*:2} stands still" is_frozen "$@"; }
is_frozen() {
    local pids
    pids=$("${@:2}")
    # shellcheck disable=SC2086
    [ -n "$pids" ] && kill -STOP $pids || return 1
    GPUMUX_EMU=$state/emu/devices timeout 0.5 "$GPUMUX_BUILD/emu/bin/gpumux-emu-fault" "$1" \
        thermal 0 && return
    # shellcheck disable=SC2086
    kill -CONT $pids
    return 1
}
# no_process TEXT: no process has TEXT in its arguments. Write TEXT so that the test itself does not
# match.
no_process() { ! pgrep -f -- "$1"; }
