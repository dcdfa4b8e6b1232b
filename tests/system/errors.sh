#!/bin/bash
# errors.sh ROW: one thing that goes wrong with a workload or a device, and what follows, with real
# programs on emulated devices. Each row is a test of its own; the table at the end names its
# function.
. "$(dirname "$0")/lib.sh"
emu=$GPUMUX_BUILD/emu/bin
burn=$GPUMUX_BUILD/workloads/gpumux-burn
in_steps=$GPUMUX_BUILD/tests/system/client_in_steps
exit_program=$GPUMUX_BUILD/tests/shim/shim_exit_program
shim=$GPUMUX_BUILD/lib/libgpumux-cuda.so
mkdir -m 777 "$work/t"

# firstfit keeps workloads on one device
up() { start --emulate "${devices:-1xH200:24g}" --policy firstfit "$@"; }
device_is() { [ "$(device "$1" "$2")" = "$3" ]; }
at() { [ "$(field "$1" attempt)" = "$2" ] && has "$1" state running; }
past() { [ "$(field "$1" attempt)" -gt "$2" ] && has "$1" state running; }
text_of() { field "$1" "attempts[$2].text"; }
pipe() {
    local uuid; uuid=$(device "${1:-0}" uuid); uuid=${uuid#GPU-}; echo "$state/node/mps/${uuid%%-*}"
}
fault() {
    GPUMUX_EMU=$state/emu/devices CUDA_MPS_PIPE_DIRECTORY=$(pipe "$1") "$emu/gpumux-emu-fault" "$@"
}
daemon_of() { cat "$(pipe 0)/nvidia-cuda-mps-control.pid" 2> /dev/null; }
control() { echo "$1" | CUDA_MPS_PIPE_DIRECTORY=$(pipe 0) "$emu/nvidia-cuda-mps-control"; }
server_is() { control "get_server_status $(control get_server_list)" | grep -q "^$1"; }

# spec KIND STEPS [JSON]: a workload on a shared device; STEPS distinguishes its processes. The load
# is low: beside a service, the shim of a task that launches without pause keeps a core busy.
spec() {
    local does="--step-ms 250 --busy-percent 4 --kernels-per-step 1 --steps"
    [ "$1" = task ] || does="--service --rate 10 --kernel-ms 1 --requests"
    # shellcheck disable=SC2086
    json_with "${3:-"{}"}" kind "\"$1\"" devices 1 quota '"2g"' command \
        "$(json_words "$burn" --sm 30 --memory 1g $does "$2")"
}
# burning STEPS: prints the processes on our devices with this many steps or requests.
burning() {
    for p in $(pgrep -f "^$burn.* $1\$"); do grep -qszxF "GPUMUX_EMU=$state/emu/devices" \
        "/proc/$p/environ" && echo "$p"; done; true
}
signal() { local pids; pids=$(burning "$2"); [ -n "$pids" ] && kill "-$1" $pids; }
is_client() {
    local pid; for pid in $(burning "$1"); do fault_free_client "$pid" && return; done; return 1
}
fault_free_client() { control "get_client_list $(control get_server_list)" | grep -qx "$1"; }
# hit STEPS: a fault in such a process; fails until the process has a context.
hit() { fault 0 illegal-address "$(burning "$1" | head -n 1)"; }

# A service and a task on one device, both clients of its MPS server.
service_and_task() {
    service=$(submit "$(spec service 900001)")
    task=$(submit "$(spec task 900002 "${1:-"{}"}")")
    wait_until "the service runs" at "$service" 1
    wait_until "the task runs" at "$task" 1
    wait_until "both are clients of MPS" eval 'is_client 900001 && is_client 900002'
}
service_is_unharmed() {
    at "$service" 1 && has "$service" failures 0 && is_client 900001 \
        || fail "the service: $(show "$service")"
}
# The service's progress from now on shows that it is unharmed.
service_answers_on() {
    local said
    said=$(output "$service" | grep -c requests=)
    wait_until "the service answers on" eval \
        '[ "$(output "$service" | grep -c requests=)" -gt "$((said + 1))" ]'
    service_is_unharmed
}
# resumes [JSON]: a workload whose resume command leaves a sign.
resumes() {
    json_with "${1:-"{}"}" resume "$(json_shell "touch $work/t/resumed; exec $burn --step-ms 250 \
        --busy-percent 4 --kernels-per-step 1 --sm 30 --memory 1g --steps 900002")"
}

# A task that gets SIGTERM or SIGINT ends by itself, after its work is done.
signalled_task_spares_neighbours() {
    up
    service_and_task '{"retries": 9}'
    local signal attempt=1
    for signal in TERM INT; do
        wait_until "it is told" signal "$signal" 900002
        attempt=$((attempt + 1))
        wait_until "it runs again" at "$task" $attempt
        wait_until "it is a client" is_client 900002
    done
    [ "$(field "$task" 'attempts[0].exit_code,attempts[1].exit_code')" = $'143\n143' ] \
        || fail "$(show "$task")"
    service_is_unharmed

    echo "-- one that does not listen, with more to do than is harmless: the shim waits for that"
    for signal in TERM INT HUP; do
        rm -f "$work/t/said"
        task=$(submit \
            "{\"devices\": 1, \"quota\": \"2g\", \"retries\": 0, \"command\": $(json_shell "
            mkfifo $work/t/said; (read ready < $work/t/said; kill -$signal \$\$) &
            GPUMUX_BUILD=$GPUMUX_BUILD exec $exit_program wait 1 800000 > $work/t/said")}")
        ends "$task" failed signal
        has "$task" 'attempts[0].signal' "$(kill -l $signal)" || fail "$(show "$task")"
    done
    service_answers_on
}

# MPS ends the work of the task, and then the agent kills the task, but not while another client
# starts.
unresponsive_task_is_terminated_by_mps() {
    up
    service=$(submit "$(spec service 900001)")
    task=$(submit "$(spec task 900002 '{"grace": "500ms"}')")
    wait_until "both are clients of MPS" eval 'is_client 900001 && is_client 900002'
    freeze 0 burning 900002
    local starting begun_s
    starting=$(submit \
        "{\"devices\": 1, \"quota\": \"1g\", \"command\": $(json_words "$in_steps" \
        "$work/t/client")}")
    wait_until "a client has begun to join" test -e "$work/t/client.joined"
    begun_s=$SECONDS
    cancel "$task"
    local i
    for i in 1 2 3 4 5 6 7 8 9 10; do
        # A process without a context after five seconds is not waited for.
        ! grep -q "Cmd:terminate_client" "$(pipe 0)/control.log" \
            || [ $((SECONDS - begun_s)) -ge 4 ] \
            || fail "a client was ended while another was starting"
        pause 0.1
    done
    has "$task" state stopping || [ $((SECONDS - begun_s)) -ge 4 ] \
        || fail "it was killed while a client was starting"
    touch "$work/t/client.go"
    wait_until "the new client has its context" test -e "$work/t/client.context"
    [ "$(cat "$work/t/client.context")" = 0 ] \
        || fail "it was hurt: error $(cat "$work/t/client.context")"
    ends "$task" cancelled
    grep -q "Cmd:terminate_client" "$(pipe 0)/control.log" \
        || fail "it was killed, and its work was not ended before"
    service_is_unharmed
    has "$starting" state running || fail "the new client: $(show "$starting")"
    cancel "$starting"
    ends "$starting" cancelled
}

# The task ignores SIGTERM, and its kernel never ends: MPS ends the work before the task is killed.
endless_task_is_ended_at_limit() {
    up
    service=$(submit "$(spec service 900001)")
    wait_until "the service is a client of MPS" is_client 900001
    local limit
    for limit in 3s 10s 30s; do # on a busy machine the task may start too late
        task=$(submit "{\"devices\": 1, \"quota\": \"2g\", \"retries\": 0, \"grace\": \"1s\",
            \"time_limit\": \"$limit\", \"command\": $(json_shell \
                "trap '' TERM; GPUMUX_BUILD=$GPUMUX_BUILD exec $exit_program wait 1 600000000")}")
        ends "$task" failed timeout
        ! output "$task" | grep ready || break
    done
    grep -q "Cmd:terminate_client" "$(pipe 0)/control.log" \
        || fail "it was killed, and its work was not ended before"
    has "$task" attempt 1 && has "$task" suspect false || fail "it was tried again: $(show "$task")"
    [[ $(field "$task" text) == *"time limit"* ]] || fail "$(show "$task")"

    echo "-- one that outlives its main process"
    local words
    words=$(grep -c "Cmd:terminate_client" "$(pipe 0)/control.log")
    task=$(submit \
        "{\"devices\": 1, \"quota\": \"2g\", \"grace\": \"60s\", \"command\": $(json_shell "
        (trap '' TERM; GPUMUX_BUILD=$GPUMUX_BUILD exec $exit_program wait 1 600000000) & wait")}")
    wait_until "its kernel runs" eval 'output "$task" | grep ready'
    cancel "$task"
    ends "$task" cancelled
    [ "$(grep -c "Cmd:terminate_client" "$(pipe 0)/control.log")" -gt "$words" ] \
        || fail "its work was not ended before it was killed"
    service_answers_on
}

# The memory of the killed task is free again, and the next attempt runs the resume command.
killed_task_resumes_and_spares_neighbours() {
    up
    service_and_task "$(resumes)"
    wait_until "it is killed" signal KILL 900002
    wait_until "it runs again" at "$task" 2
    wait_until "by its resume command" test -e "$work/t/resumed"
    wait_until "it is a client" is_client 900002
    [ "$(field "$task" 'attempts[0].signal,failures')" = $'9\n1' ] || fail "$(show "$task")"
    # Two processes of 1 GiB each, and nothing of the dead one.
    wait_until "nothing of it is left on the device" \
        eval '[ "$(device 0 usage.memory_used_bytes)" = $((2 << 30)) ]'
    service_is_unharmed
    # It fails after three times.
    local attempt
    for attempt in 2 3 4; do
        wait_until "attempt $attempt" at "$task" $attempt
        wait_until "it is killed" signal KILL 900002
    done
    ends "$task" failed signal

    echo "-- launches of 10 ms without a pause: 100 ms outstanding would end the service as well"
    task=$(submit "{\"devices\": 1, \"quota\": \"2g\", \"command\": $(json_shell "
        echo \$\$ > $work/t/pid
        GPUMUX_BUILD=$GPUMUX_BUILD exec $exit_program wait 100000 10000")}")
    wait_until "much was launched" \
        eval '[ "$(field "$task" usage.protection.counters.launches_kernel)" -ge 30 ]'
    kill -KILL "$(cat "$work/t/pid")"
    wait_until "it runs again" at "$task" 2
    has "$task" 'attempts[0].signal' 9 || fail "$(show "$task")"
    service_answers_on
}

# stubborn STEPS: a process that burns, below a process that ignores SIGTERM and outlives it.
stubborn() {
    echo "{\"command\": $(json_shell "trap '' TERM; $burn --step-ms 250 --busy-percent 4 \
        --kernels-per-step 1 --sm 30 --memory 1g --steps $1; while :; do sleep 0.1; done")}"
}
# A client of our own beside the agent's; the result of its cuInit goes to FILE.joined.
client_beside() {
    GPUMUX_EMU=$state/emu/devices LD_LIBRARY_PATH=$GPUMUX_BUILD/emu \
        CUDA_MPS_PIPE_DIRECTORY=$(cat "$work/pipe") \
        LD_PRELOAD="$1" "$in_steps" "$2"
}

# After a fatal fault all clients of MPS leave. Services return first, suspects one by one, and a
# task that faults alone is guilty. The shim waits while MPS answers with error 807. The next agent
# continues after a killed one.
fault_suspects_return_one_by_one() {
    up --set fault_probation=3s
    service=$(submit "$(spec service 900001)")
    task=$(submit "$(spec task 900002 "$(resumes "$(stubborn 900002)")")")
    other=$(submit "$(spec task 900003 "$(stubborn 900003)")")
    wait_until "all are clients of MPS" \
        eval 'is_client 900001 && is_client 900002 && is_client 900003'
    pipe 0 > "$work/pipe"
    freeze 0 burning 900003 # the fault remains as long as this process
    wait_until "it faults" hit 900002
    is_suspect() { grep -q '"verdict":"suspect"' "$state/node/records/$1.1"; }
    wait_until "why they leave is kept" eval 'is_suspect "$task" && is_suspect "$other"'
    crash
    echo "get_server_status $(echo get_server_list \
        | CUDA_MPS_PIPE_DIRECTORY=$(cat "$work/pipe") "$emu/nvidia-cuda-mps-control")" \
        | CUDA_MPS_PIPE_DIRECTORY=$(cat "$work/pipe") "$emu/nvidia-cuda-mps-control" \
        | grep FAULT > /dev/null || fail "the server does not know of the fault"

    client_beside "" "$work/t/plain" && fail "a faulted server took a client"
    [ "$(cat "$work/t/plain.joined")" = 807 ] || fail "it answers $(cat "$work/t/plain.joined")"
    client_beside "$shim" "$work/t/patient" 2> /dev/null &
    local i
    for i in 1 2 3 4 5; do
        [ ! -e "$work/t/patient.joined" ] \
            || fail "the shim did not wait: $(cat "$work/t/patient.joined")"
        pause 0.1
    done
    signal KILL 900003
    wait_until "it is taken" test -e "$work/t/patient.joined"
    [ "$(cat "$work/t/patient.joined")" = 0 ] || fail "it gave up: $(cat "$work/t/patient.joined")"
    kill -KILL %%
    wait %% 2> /dev/null || true

    up --set fault_probation=3s
    wait_until "the service is back" at "$service" 2
    wait_until "a suspect runs" eval 'at "$task" 2 || at "$other" 2'
    local id
    for id in "$service" "$task" "$other"; do
        has "$id" failures 0 || fail "it was blamed: $(show "$id")"
    done
    for id in "$task" "$other"; do
        [[ $(text_of "$id" 0) == *"in one of all that shared the device" ]] || fail "$(show "$id")"
    done
    [ "$(for id in "$task" "$other"; do has "$id" state running && has "$id" suspect true \
        && echo; done | wc -l)" -le 1 ] \
        || fail "two suspects at once"
    wait_until "it runs by its resume command" test -e "$work/t/resumed"
    local attempt
    for attempt in 2 3 4; do
        wait_until "attempt $attempt of the guilty one" at "$task" $attempt
        wait_until "it faults" hit 900002
    done
    ends "$task" failed fault
    [[ $(field "$task" text) == *"Xid 31"* ]] \
        || fail "the reason is not kept: $(field "$task" text)"
    at "$service" 2 || fail "the service was ended again: $(show "$service")"
    wait_until "the other runs, and is cleared" \
        eval 'has "$other" state running && has "$other" suspect false'
}

# The agent checks MPS five times a second, or as often as a busy machine permits; once in two
# seconds is too rare. Sets look_ms to the interval here.
is_watched() {
    local before begun_ms
    before=$(looks)
    begun_ms=$(now_ms)
    pause 3
    before=$(($(looks) - before))
    [ $before -ge 4 ] && look_ms=$((($(now_ms) - begun_ms) / before))
}
looks() { grep -c "Cmd:get_server_status" "$(pipe 0)/control.log" || true; }
now_ms() { echo $((${EPOCHREALTIME/./} / 1000)); }
# noticed_ms LINES: prints the time of the first line of the log, after LINES lines, by which MPS is
# not well.
noticed_ms() {
    local change=' mps state changed device=.* state=(silent|broken) '
    date -d "$(tail -n "+$(($1 + 1))" "$log" | grep -m 1 -E "$change" | cut -d ' ' -f 1)" +%s%3N
}
# lose_mps WHAT: and what follows. Leaves in noticed_after_ms how soon it was noticed.
lose_mps() {
    local before begun_ms lines
    before=$(daemon_of)
    lines=$(wc -l < "$log")
    wait_until "$1" fault 0 "$1"
    begun_ms=$(now_ms)
    attempt=$((attempt + 1))
    wait_until "the device is disabled" \
        eval '[ "$(told "device_state.*disabled: MPS was lost" | wc -l)" = $((attempt - 1)) ]'
    noticed_after_ms=$(($(noticed_ms "$lines") - begun_ms))
    wait_until "the service runs again" at "$service" $attempt
    wait_until "it is a client of MPS" is_client 900001
    [ "$(told "device_state.*init: .*self-test passed" | wc -l)" = $((attempt - 1)) ] \
        || fail "no self-test: $("$gpumux" events)"
    [ "$(told "device_alarm.*MPS was lost" | wc -l)" = $((attempt - 1)) ] || fail "nobody was told"
    [ "$(daemon_of)" != "$before" ] || fail "the daemon is the same"
    ! grep -q . "/proc/$before/cmdline" 2> /dev/null || fail "the old daemon is still there"
}

# An MPS daemon or server that hangs or ends is noticed, replaced and tested, and its clients
# restart.
lost_mps_is_replaced_without_blame() {
    up
    service_and_task "$(stubborn 900002)"
    wait_until "it is watched" is_watched
    local what try attempt=1 noticed_after_ms soonest_ms most_ms
    for what in mps-control-crash mps-server-crash mps-control-hang mps-server-hang; do
        # The next check finds the end, and queries a hanging MPS twice, for 0.4 s. The machine may
        # be busy, so the time may be longer, and the shortest of several counts.
        most_ms=$((3 * look_ms + 500)) soonest_ms=1000000
        [[ $what == *crash ]] || most_ms=$((3 * (look_ms + 400)))
        for try in {1..10}; do
            lose_mps $what
            [ $noticed_after_ms -gt $soonest_ms ] || soonest_ms=$noticed_after_ms
            [ $soonest_ms -gt $most_ms ] || break
        done
        [ $soonest_ms -le $most_ms ] \
            || fail "$what was noticed after $soonest_ms ms at best of $try, not $most_ms;" \
                "MPS is checked every $look_ms ms"
    done
    wait_until "the task runs again" eval 'has "$task" state running && is_client 900002'
    has "$service" failures 0 && has "$task" failures 0 || fail "it was blamed"
    wait_until "MPS is shown" device_is 0 mps ready
    "$gpumux" nodes -o wide | grep ' ready ' > /dev/null || fail "$("$gpumux" nodes -o wide)"

    echo "-- an agent that is killed before the test leaves that to the next"
    wait_until "it hangs" fault 0 mps-control-hang
    wait_until "the loss is kept" test -s "$state/node/untested"
    crash
    [ -s "$state/node/untested" ] || fail "the test was made already"
    up
    wait_until "it is known" told "disabled: MPS was lost: no self-test has passed since"
    wait_until "the device is well" device_is 0 state healthy
    [ ! -s "$state/node/untested" ] || fail "the device is still listed"
    wait_until "the service runs again" past "$service" $attempt

    # An attempt may start before the end is noticed.
    echo "-- a daemon that ended while no agent watched it"
    wait_until "it is a client" is_client 900001
    attempt=$(field "$service" attempt)
    crash
    freeze 0 burning 900001 # the process might end by itself before a check
    kill -KILL "$(cat "$(ls -d "$state"/node/mps/*)/nvidia-cuda-mps-control.pid")"
    up
    wait_until "it is known" told "MPS was lost: it ended while nobody watched it"
    wait_until "the service runs again" past "$service" "$attempt"
}

# The device is disabled, its workloads restart on another device, and an alarm tells the operator.
hardware_error_moves_workloads_elsewhere() {
    devices=2xH200:24g
    up
    local xid index other id
    wait_until "they are watched" eval 'device_is 0 state healthy && device_is 1 state healthy'
    for xid in 48 74 94 120; do # device/repair_test has the whole list
        fault 1 xid $xid
        wait_until "Xid $xid disables" device_is 1 state disabled
        wait_until "an operator is told of Xid $xid" told "device_alarm.*Xid $xid:"
        "$gpumux" enable "$(device 1 uuid)"
        wait_until "it is enabled" eval '! device_is 1 state disabled'
    done
    for what in lost ecc; do
        wait_until "both are well" eval 'device_is 0 state healthy && device_is 1 state healthy'
        rm -f "$work/t/resumed"
        task=$(submit "$(spec task 900002 "$(resumes)")")
        wait_until "it runs" at "$task" 1
        index=$(api GET /v1/nodes "nodes[0].devices[uuid=$(field "$task" 'devices[0]')].index")
        other=$((1 - index))
        wait_until "it computes" eval '[ -n "$(burning 900002)" ]'
        fault "$index" $what
        wait_until "disabled" device_is "$index" state disabled
        wait_until "it runs elsewhere" \
            eval 'at "$task" 2 && [ "$(field "$task" "devices[0]")" = "$(device "$other" uuid)" ]'
        wait_until "by its resume command" test -e "$work/t/resumed"
        has "$task" failures 0 || fail "it was blamed: $(show "$task")"
        # A check may precede the Xid of a lost device.
        [[ $(text_of "$task" 0) =~ its\ device\ is\ disabled:\ (Xid|fallen) ]] \
            || fail "$(show "$task")"
        fault "$index" reset
        "$gpumux" enable "$(device "$index" uuid)"
        cancel "$task"
        ends "$task" cancelled
    done
    told "device_alarm.*fallen off the bus" > /dev/null || fail "nobody was told"

    echo "-- off the bus while no agent runs: its workloads, failed ones too, move elsewhere"
    wait_until "both are well" eval 'device_is 0 state healthy && device_is 1 state healthy'
    task=$(submit "$(spec task 900002 "$(json_with "$(stubborn 900002)" grace '"500ms"')")")
    local ended
    ended=$(submit "$(spec task 900003)")
    for id in "$task" "$ended"; do wait_until "it runs" at "$id" 1; done
    wait_until "both compute" eval 'is_client 900002 && is_client 900003'
    [ "$(field "$task" 'devices[0]')" = "$(field "$ended" 'devices[0]')" ] \
        || fail "not on one device"
    index=$(api GET /v1/nodes "nodes[0].devices[uuid=$(field "$task" 'devices[0]')].index")
    crash
    GPUMUX_EMU=$state/emu/devices "$emu/gpumux-emu-fault" "$index" lost
    wait_until "one has ended" test -e "$state/node/attempts/$ended.1/exit.json"
    up
    for id in "$task" "$ended"; do
        wait_until "it runs elsewhere" at "$id" 2
        has "$id" failures 0 || fail "it was blamed: $(show "$id")"
        [ "$(text_of "$id" 0)" = "one of its devices is not there any more" ] \
            || fail "$(show "$id")"
        cancel "$id"
        ends "$id" cancelled
    done
    told "requeued.*is not there any more" > /dev/null || fail "nobody was told"
    stop
    GPUMUX_EMU=$state/emu/devices "$emu/gpumux-emu-fault" "$index" reset
    up

    echo "-- off the bus without an Xid: the next check shows it; the other device is monitored"
    wait_until "both are well" eval 'device_is 0 state healthy && device_is 1 state healthy'
    task=$(submit "$(spec task 900002)")
    wait_until "it runs" at "$task" 1
    index=$(api GET /v1/nodes "nodes[0].devices[uuid=$(field "$task" 'devices[0]')].index")
    other=$((1 - index))
    wait_until "it computes" eval '[ -n "$(burning 900002)" ]'
    fault "$index" lost quietly
    wait_until "disabled" device_is "$index" state disabled
    [[ $(device "$index" cause) == "fallen off the bus"* ]] || fail "$(device "$index" cause)"
    wait_until "it runs elsewhere" \
        eval 'at "$task" 2 && [ "$(field "$task" "devices[0]")" = "$(device "$other" uuid)" ]'
    has "$task" failures 0 || fail "it was blamed: $(show "$task")"
    fault "$other" xid 62
    wait_until "the other is heard" told "device_note.*Xid 62"
    fault "$index" reset
    "$gpumux" enable "$(device "$index" uuid)"
    wait_until "it is well again" device_is "$index" state healthy
    fault "$index" xid 109
    wait_until "and is heard" told "device_note.*Xid 109"
}

# The device breaks while its MPS is lost, and MPS is lost while the device is broken: the next
# agent knows of both.
device_and_mps_losses_both_persist() {
    cat > "$work/control" <<END
#!/bin/sh
[ ! -e $work/t/no-mps ] || exit 1
exec $emu/nvidia-cuda-mps-control "\$@"
END
    chmod 755 "$work/control"
    up --set mps_control="$work/control"
    local first daemon
    for first in mps device; do
        wait_until "it is well" device_is 0 state healthy
        task=$(submit "$(spec task 900002)")
        wait_until "it is a client of MPS" is_client 900002
        freeze 0 burning 900002 # keeps MPS in use until it is killed
        daemon=$(daemon_of)
        [ $first = mps ] || fault 0 xid 48
        [ $first = mps ] || wait_until "it is broken" grep -q "Xid 48" "$state/node/disabled"
        # The agent may find that MPS does not answer, and end the daemon, before the kill.
        touch "$work/t/no-mps"
        kill -KILL "$daemon" || ! kill -0 "$daemon"
        wait_until "the loss of MPS is kept" test -s "$state/node/untested"
        [ $first = device ] || GPUMUX_EMU=$state/emu/devices "$emu/gpumux-emu-fault" 0 xid 48
        wait_until "that it is broken is kept" grep -q "Xid 48" "$state/node/disabled"
        crash
        rm "$work/t/no-mps"
        up --set mps_control="$work/control"
        wait_until "it is tested" eval '[ ! -s "$state/node/untested" ]'
        device_is 0 state disabled || fail "it is in use: $(device 0 state)"
        "$gpumux" enable "$(device 0 uuid)"
        wait_until "it is well" device_is 0 state healthy
        cancel "$task"
        ends "$task" cancelled
    done
}

# The next agent reports attempts that ended while no agent ran.
killed_agent_leaves_attempts_running() {
    up
    service_and_task
    local ends pid
    ends=$(submit "{\"devices\": 1, \"quota\": \"1g\", \"command\": $(json_shell \
        "while [ ! -e $work/t/end ]; do sleep 0.02; done; exit 7")}")
    wait_until "it runs" at "$ends" 1
    pid=$(burning 900002)
    crash
    touch "$work/t/end"
    wait_until "it ends" test -e "$state/node/attempts/$ends.1/exit.json"
    up
    ends "$ends" failed exit
    has "$ends" exit_code 7 || fail "its status was lost: $(show "$ends")"
    at "$task" 1 && [ "$(burning 900002)" = "$pid" ] \
        || fail "the task did not run on: $(show "$task")"
    service_is_unharmed
}

# While no agent runs, a fault or the loss of MPS fails no client that may be innocent.
unseen_mps_losses_blame_no_task() {
    up --set fault_probation=1s
    local id other third
    task=$(submit "$(spec task 900002)")
    other=$(submit "$(spec task 900003)")
    wait_until "both are clients of MPS" eval 'is_client 900002 && is_client 900003'
    pipe 0 > "$work/pipe"
    id=$(burning 900002 | head -n 1)
    crash
    GPUMUX_EMU=$state/emu/devices CUDA_MPS_PIPE_DIRECTORY=$(cat "$work/pipe") \
        "$emu/gpumux-emu-fault" 0 illegal-address "$id"
    for id in "$task" "$other"; do
        wait_until "$id has ended" test -e "$state/node/attempts/$id.1/exit.json"
    done
    up --set fault_probation=1s
    for id in "$task" "$other"; do
        wait_until "$id is tried again" past "$id" 1
        has "$id" failures 0 || fail "it was blamed: $(show "$id")"
        [[ $(text_of "$id" 0) == *"while no agent ran"* ]] || fail "$(show "$id")"
        [ ! -e "$state/node/register/$id.1" ] || fail "its socket was left"
    done
    wait_until "both are cleared" eval 'has "$task" suspect false && has "$other" suspect false'
    cancel "$task"
    cancel "$other"
    ends "$task" cancelled
    ends "$other" cancelled

    echo "-- one of two, and MPS still knows: the other is there"
    service_and_task
    crash
    freeze 0 burning 900001
    GPUMUX_EMU=$state/emu/devices CUDA_MPS_PIPE_DIRECTORY=$(cat "$work/pipe") \
        "$emu/gpumux-emu-fault" 0 illegal-address "$(burning 900002 | head -n 1)"
    wait_until "the task has ended" test -e "$state/node/attempts/$task.1/exit.json"
    up --set fault_probation=1s
    wait_until "both are tried again" eval 'past "$task" 1 && past "$service" 1'
    has "$task" failures 0 && has "$service" failures 0 || fail "it was blamed"

    echo "-- MPS itself was lost"
    wait_until "the task is cleared" has "$task" suspect false
    cancel "$task"
    ends "$task" cancelled
    cancel "$service"
    ends "$service" cancelled
    third=$(submit "$(spec task 900004)")
    wait_until "it is a client" is_client 900004
    id=$(daemon_of)
    crash
    kill -KILL "$id"
    wait_until "its client has ended" test -e "$state/node/attempts/$third.1/exit.json"
    up
    wait_until "it is known" told "MPS was lost: it ended while nobody watched it"
    wait_until "it runs again" past "$third" 1
    has "$third" failures 0 || fail "it was blamed: $(show "$third")"

    echo "-- one that fails by itself has failed, and nothing of it is left"
    wait_until "it is a client" is_client 900004
    id=$(burning 900004 | head -n 1)
    other=$(field "$third" attempt)
    crash
    kill -TERM "$id"
    wait_until "it has ended" test -e "$state/node/attempts/$third.$other/exit.json"
    up
    ends "$third" failed exit
    [ -z "$(ls "$state/node/register")" ] || fail "left: $(ls "$state/node/register")"
}

declare -A rows=(
    [signal]=signalled_task_spares_neighbours
    [silent]=unresponsive_task_is_terminated_by_mps
    [limit]=endless_task_is_ended_at_limit
    [killed]=killed_task_resumes_and_spares_neighbours
    [fault]=fault_suspects_return_one_by_one
    [mps]=lost_mps_is_replaced_without_blame
    [hardware]=hardware_error_moves_workloads_elsewhere
    [twice]=device_and_mps_losses_both_persist
    [agent]=killed_agent_leaves_attempts_running
    [unseen]=unseen_mps_losses_blame_no_task
)
"${rows[$1]}"
[ -z "$daemon_pid" ] || stop
