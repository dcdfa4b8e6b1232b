#!/bin/bash
# The end of a node's MPS daemons and servers: no process of MPS stays behind, however the agent
# ends and however slowly the daemon responds, and no daemon ends while an attempt needs it.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mps_lib.sh"
mkdir -m 777 "$work/t"
control=$work/control # another name than the daemon's usual one

# mps_processes: prints pids of the daemons and servers of this test's node, and of programs that
# control them.
mps_processes() {
    local file
    for file in $(grep -lsz "^CUDA_MPS_PIPE_DIRECTORY=$state/node/mps/" /proc/[0-9]*/environ); do
        ! grep -qs '^nvidia-cuda-mps' "${file%environ}comm" || basename "${file%/environ}"
    done
    true
}
no_mps() { [ -z "$(mps_processes)" ]; }
nothing_runs() { [ -z "$(our_processes)" ]; }
guards() { pgrep -f "mps-guard $state/node " || true; }
# shellcheck disable=SC2046
kill_guards() { [ -z "$(guards)" ] || kill -KILL $(guards); }
attempt_ended() { test -e "$state/node/attempts/$1.$2/exit.json"; }

# stubborn SECONDS: a client of MPS that ignores SIGTERM and is killed after this time.
stubborn() {
    json_with "{\"grace\": \"$1s\"}" devices 1 quota '"4g"' command \
        "$(json_shell \
        "trap '' TERM; $burn --step-ms 5 --memory 1g --steps 1000000; while :; do sleep 0.1; done")"
}
stubborn_runs() {
    first=$(submit "$(stubborn "$1")")
    wait_field "$first" state running
    follow "$first"
    wait_until "the attempt is a client of MPS" eval '[ "$(clients | wc -l)" = 1 ]'
    pid=$(daemon_of "$part")
}

stopped_agent_leaves_no_mps() {
    echo "-- the agent ends while the last attempt is ending"
    up
    stubborn_runs 4
    cancel "$first"
    wait_field "$first" state stopping
    stop
    attempt_ended "$first" 1 && fail "the attempt ended before the agent"
    alive "$pid" || fail "the daemon ended before the attempt"
    wait_until "the attempt has ended" attempt_ended "$first" 1
    wait_until "the daemon and its server have ended" no_mps
    wait_until "the guard has ended" nothing_runs

    echo "-- an attempt outlives the agent, and ends without one"
    up
    ends "$first" cancelled
    client_runs
    stop
    pause 2.5 # two checks of the guard
    has_client || fail "the attempt lost its daemon"
    kill_clients
    wait_until "the attempt has ended" attempt_ended "$first" 1
    wait_until "the daemon and its server have ended" no_mps
    wait_until "the guard has ended" nothing_runs
}
has_client() { alive "$pid" && [ "$(clients | wc -l)" = 1 ]; }
# shellcheck disable=SC2046
kill_clients() { kill -TERM $(our_burns); }

crashed_agent_leaves_no_mps() {
    echo "-- the agent is killed, and no attempt lives"
    up
    client_runs
    cancel "$first"
    ends "$first" cancelled
    alive "$pid" || fail "the daemon did not wait for the next attempt"
    crash
    wait_until "the daemon and its server have ended" no_mps
    wait_until "the guard has ended" nothing_runs

    echo "-- the agent is killed, and the last attempt ends later"
    up
    client_runs
    crash
    pause 2.5 # two checks of the guard
    has_client || fail "the attempt lost its daemon"

    echo "-- the next agent has the daemon, and a guard of its own"
    before=$(guards)
    up
    at_attempt "$first" 1 && has_client || fail "the attempt lost its daemon"
    wait_until "one guard is left" eval \
        '[ "$(guards | wc -w)" = 1 ] && [ "$(guards)" != "$before" ]'
    pause 2.5
    has_client || fail "the guard of the agent before ended the daemon"
    [ "$(daemon_of "$part")" = "$pid" ] || fail "the daemon was replaced"

    echo "-- a failure that no agent saw is the attempt's own, though its daemon was ended since"
    losses=$(count_of "MPS was lost")
    crash
    kill_clients
    wait_until "the attempt has ended" attempt_ended "$first" 1
    wait_until "the daemon and its server have ended" no_mps
    up
    ends "$first" failed exit
    [ "$(count_of "MPS was lost")" = "$losses" ] \
        || fail "the end of the daemon was taken for a loss"
    stop
    wait_until "nothing is left" nothing_runs
}
count_of() { told "$1" | wc -l || true; }

# waits_to_start: an attempt whose daemon starts when t/go appears.
control_waits() {
    rm -f "$work/t/go"
    printf '#!/bin/sh\n[ "$1" != -d ] || { : > %s; while [ ! -e %s ]; do sleep 0.05; done; }
exec %s "$@"\n' "$work/t/starts" "$work/t/go" "$GPUMUX_BUILD/emu/bin/nvidia-cuda-mps-control" \
        > "$control"
    chmod 755 "$control"
}

starting_daemon_ends_with_agent() {
    echo "-- the agent ends while the daemon is starting"
    control_waits
    up --set mps_control="$control"
    first=$(submit "$(gpus '{}')")
    wait_until "the attempt waits for MPS" mps_is "$first" starting
    wait_until "the daemon is being started" test -e "$work/t/starts"
    kill -TERM "$daemon_pid"
    touch "$work/t/go"
    wait "$daemon_pid" || fail "the agent ended with status $?"
    daemon_pid=
    wait_until "no process of MPS is left" no_mps
    wait_until "nothing is left" nothing_runs

    echo "-- the agent does not wait for a daemon that does not start"
    control_waits
    up --set mps_control="$control"
    wait_until "the attempt waits for MPS again" mps_is "$first" starting
    begun_s=$SECONDS
    stop
    # a start may take 10 s
    [ $((SECONDS - begun_s)) -lt 8 ] || fail "the agent took $((SECONDS - begun_s)) s to end"
    touch "$work/t/go"
    wait_until "nothing is left" nothing_runs
    no_mps || fail "a daemon started after its agent"

    echo "-- the agent is killed while the daemon is starting"
    control_waits
    rm -f "$work/t/starts"
    up --set mps_control="$control"
    wait_until "the daemon is being started" test -e "$work/t/starts"
    crash
    pause 1.5
    touch "$work/t/go"
    wait_until "the start was too late" test \
        -s "$state/node/mps/$(ls "$state/node/mps" | head -n 1)/control.log"
    wait_until "no process of MPS is left" no_mps
    wait_until "nothing is left" nothing_runs

    echo "-- the agent ends while a lost daemon is being replaced"
    rm -f "$work/t/starts"
    up --set mps_control="$control" # t/go exists
    wait_until "the attempt runs" at_attempt "$first" 1
    follow "$first"
    wait_until "the attempt is a client of MPS" eval '[ "$(clients | wc -l)" = 1 ]'
    rm "$work/t/go" "$work/t/starts"
    kill -KILL "$(daemon_of "$part")"
    wait_until "the daemon is being replaced" test -e "$work/t/starts"
    cancel "$first"
    ends "$first" cancelled
    kill -TERM "$daemon_pid"
    touch "$work/t/go"
    wait "$daemon_pid" || fail "the agent ended with status $?"
    daemon_pid=
    wait_until "no process of MPS is left" no_mps
    wait_until "nothing is left" nothing_runs
}

unresponsive_daemon_ends_with_agent() {
    echo "-- the daemon answers slowly when the agent ends"
    printf '#!/bin/sh\n[ ! -e %s ] || sleep 3\nexec %s "$@"\n' "$work/t/slow" \
        "$GPUMUX_BUILD/emu/bin/nvidia-cuda-mps-control" > "$control"
    chmod 755 "$control"
    up --set mps_control="$control"
    client_runs
    touch "$work/t/slow"
    wait_until "the daemon is silent" mps_is "$first" silent
    cancel "$first"
    ends "$first" cancelled
    begun_s=$SECONDS
    stop
    [ $((SECONDS - begun_s)) -lt 12 ] || fail "the agent took $((SECONDS - begun_s)) s to end"
    no_mps || fail "left: $(mps_processes)"
    wait_until "nothing is left" nothing_runs

    echo "-- the daemon answers slowly when nobody but the guard is there"
    rm "$work/t/slow"
    up --set mps_control="$control"
    client_runs
    crash
    touch "$work/t/slow"
    kill_clients
    wait_until "the daemon and its server have ended" no_mps
    wait_until "nothing is left" nothing_runs
    rm "$work/t/slow"

    echo "-- the daemon hangs when the agent ends"
    up --set mps_control="$control"
    ends "$first" failed exit
    client_runs
    cancel "$first"
    ends "$first" cancelled
    alive "$pid" || fail "the daemon did not wait for the next attempt"
    kill -STOP "$pid"
    stop
    no_mps || fail "left: $(mps_processes)"

    echo "-- the daemon and its server hang when nobody but the guard is there"
    up --set mps_control="$control"
    client_runs
    server=$(servers)
    cancel "$first"
    ends "$first" cancelled
    kill -STOP "$pid" "$server"
    crash
    wait_until "the daemon and its server have ended" no_mps
    wait_until "nothing is left" nothing_runs

    echo "-- the daemon is gone, and its server hangs"
    up
    client_runs
    server=$(servers)
    cancel "$first"
    ends "$first" cancelled
    kill -STOP "$server"
    kill -KILL "$pid"
    stop
    no_mps || fail "left: $(mps_processes)"
    wait_until "nothing is left" nothing_runs
}

next_agent_ends_orphaned_mps() {
    echo "-- the next agent ends a server whose daemon is gone"
    up
    client_runs
    server=$(servers)
    crash
    kill_guards
    kill -STOP "$server"
    kill -KILL "$pid"
    # shellcheck disable=SC2046
    kill -KILL $(our_burns)
    wait_until "the attempt has ended" attempt_ended "$first" 1
    alive "$server" || fail "the server has ended"
    up
    wait_until "the server has ended" eval '! alive "$server"'
    cancel "$first"
    ends "$first" cancelled
    are_well

    echo "-- the next agent ends a daemon that nobody uses"
    client_runs
    crash
    kill_guards
    kill_clients
    wait_until "the attempt has ended" attempt_ended "$first" 1
    alive "$pid" || fail "the daemon has ended"
    up
    wait_until "the daemon has ended" eval '! alive "$pid"'
    stop
    wait_until "nothing is left" nothing_runs

    echo "-- without the program of MPS an agent leaves no daemon either"
    mkdir -p "$work/lean/bin" "$work/lean/lib/gpumux/emu"
    cp "$gpumux" "$work/lean/bin/gpumux"
    cp "$GPUMUX_BUILD"/emu/lib*.so.1 "$work/lean/lib/gpumux/emu"
    up
    client_runs
    stop
    local gpumux=$work/lean/bin/gpumux
    up
    at_attempt "$first" 1 && alive "$pid" || fail "the attempt lost its daemon"
    stop
    pause 2.5
    alive "$pid" || fail "the attempt lost its daemon"
    kill_clients
    wait_until "the daemon and its server have ended" no_mps
    wait_until "nothing is left" nothing_runs
}

declare -A rows=(
    [stopping]=stopped_agent_leaves_no_mps
    [crashed]=crashed_agent_leaves_no_mps
    [starting]=starting_daemon_ends_with_agent
    [slow]=unresponsive_daemon_ends_with_agent
    [guardless]=next_agent_ends_orphaned_mps
)
"${rows[$1]}"
