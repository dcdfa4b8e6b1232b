#!/bin/bash
# frontier.sh: a service beside a training task on a real GPU, point by point.
#
# The setup: ResNet-50 inference (fp16, batch 8, a CUDA graph) at Poisson RATE requests/s, with
# latency from the due time, beside a training task; both under the shim, with tests/shim/registrar
# as their agent. Both run all the time; the registrar changes the limits, and the task pauses while
# the service is measured alone. Every line of OUT/frontier-NAME.jsonl is one point, written as soon
# as it is measured, so an interrupted run keeps its points.
#
#   WINDOWS="250 100 500 1000"  windows of the task in us, in the order measured
#   ROUNDS=1                    number of rounds: the service alone, then each window
#   EXTRA=1                     0: only points that a bar is about
#   REQUESTS=3000 RATE=150      requests of a point, and their rate
#   MODEL=resnet50              model that the task trains: resnet50, bert, lstm
#   MPS=1                       0: without MPS, time-sliced
#   GATE=device                 host: threads wait for the service, not streams; both: one point of
#                               host besides; none: no gate, only the window and SHARE limit the
#                               task
#   SHARE=100                   % of the device's multiprocessors for the task, MPS only
#   LINGER=0                    us that the task still waits after a service has become idle
#   BUDGET_S=450                points that would end later are skipped
#   CHECK=1                     at the end, tasks are killed while their streams are shut, and the
#                               service must survive
#   NAME=...                    name of the result
#
# Points by importance: the task alone, without limits; the service alone; the windows; the task
# beside an idle service, with the full cost of the first window; the service alone again; the gate
# on the host; no limits at all. Needs PyTorch, a C compiler and the library: SHIM, or the result of
# `make` or `make bundle`. Changes no setting of the card.
set -Eeuo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
windows=${WINDOWS:-250 100 500 1000} rounds=${ROUNDS:-1} extra=${EXTRA:-1} model=${MODEL:-resnet50}
requests=${REQUESTS:-3000} rate=${RATE:-150} share=${SHARE:-100}
mps=${MPS:-1} gate=${GATE:-device} linger=${LINGER:-0} budget_s=${BUDGET_S:-450} out=${OUT:-$PWD}
name=${NAME:-$model-$rate-mps$mps} python=${PYTHON:-python3}
settle_s=${SETTLE_S:-2} alone_s=${ALONE_S:-8} gate_us=20000
work=$(mktemp -d /tmp/gmf.XXXXXX)
result=$out/frontier-$name.jsonl
declare -A to from pids

die() { echo "frontier: $*" >&2; exit 1; }
finish() {
    trap - EXIT
    for program in "${!pids[@]}"; do kill -TERM "${pids[$program]}" 2> /dev/null || true; done
    sleep 1
    [ "$mps" = 0 ] || echo quit | nvidia-cuda-mps-control > /dev/null 2>&1 || true
    tail -n 3 "$work"/*.err >&2 2> /dev/null || true
    rm -rf "$work"
}
trap finish EXIT

find_shim() {
    local bundle
    for shim in "${SHIM:-}" "$here/build/release/lib/libgpumux-cuda.so"; do
        [ ! -f "$shim" ] || { realpath "$shim"; return; }
    done
    bundle=$(ls "$here"/dist/gpumux-*.tar.gz 2> /dev/null | tail -n 1) || true
    [ -n "$bundle" ] || die "no libgpumux-cuda.so: set SHIM, or make"
    tar -C "$work" -xzf "$bundle"
    ls "$work"/gpumux-*/lib/gpumux/libgpumux-cuda.so
}

# ---- programs ----

begin() { # begin PROGRAM COMMAND...: starts it with pipes for commands and responses
    local program=$1 in out_fd
    shift
    mkfifo "$work/$program.in" "$work/$program.out"
    exec {in}<> "$work/$program.in" {out_fd}<> "$work/$program.out"
    "$@" < "$work/$program.in" > "$work/$program.out" 2> "$work/$program.err" &
    pids[$program]=$! to[$program]=$in from[$program]=$out_fd
}
end() { # end PROGRAM [SIGNAL]: returns its exit status
    local status=0 fd_in=${to[$1]} fd_out=${from[$1]}
    kill "-${2:-TERM}" "${pids[$1]}" 2> /dev/null || true
    wait "${pids[$1]}" 2> /dev/null || status=$?
    exec {fd_in}>&- {fd_out}>&-
    rm -f "$work/$1.in" "$work/$1.out"
    unset "pids[$1]" "to[$1]" "from[$1]"
    return "$status"
}
tell() { echo "${*:2}" >&"${to[$1]}"; }
hear() { local line; read -r -t "${2:-120}" line <&"${from[$1]}" && echo "$line"; }
ask() { tell "$@"; hear "$1"; }
begin_with_shim() { # begin_with_shim PROGRAM MARK PRIORITY COMMAND...
    local program=$1 mark=$2 priority=$3
    shift 3
    begin "$program" env GPUMUX_MARK="$mark" GPUMUX_REGISTER="$work/socket" \
        CUDA_MPS_CLIENT_PRIORITY="$priority" LD_PRELOAD="$shim" "$@"
}
begin_agent() {
    begin agent "$work/registrar" --socket "$work/socket" "$@"
    [ "$(hear agent)" = ready ] || die "the registrar does not start"
}
begin_task() { # begin_task SHARE
    local limits=()
    [ "$1" = 100 ] || limits=(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="$1")
    : > "$work/train.log"
    env GPUMUX_MARK=task GPUMUX_REGISTER="$work/socket" CUDA_MPS_CLIENT_PRIORITY=1 "${limits[@]}" \
        LD_PRELOAD="$shim" \
        "$python" train.py --model "$model" --seconds 3600 --window 0.5 --pause "$work/pause" \
        > "$work/train.log" 2> "$work/train.err" &
    pids[task]=$!
}
end_task() {
    kill -TERM "${pids[task]}"
    wait "${pids[task]}" 2> /dev/null || true
    unset "pids[task]"
}
wait_ready() { # wait_ready PROGRAM...
    local program
    for program; do
        until grep -qs ready "$work/$program.err"; do
            sleep 0.1; kill -0 "${pids[task]}" "${pids[service]}"
        done
    done
}
counters() { # counters FILE: writes the counters of all processes
    tell agent show
    local line
    : > "$1"
    while line=$(hear agent 10) && [ "$line" != end ]; do echo "$line" >> "$1"; done
}
# difference BEFORE AFTER MARK: prints the changes of the last process with the mark, as JSON.
difference() {
    awk -v mark="mark=$3" '
        { found = 0; for (i = 1; i <= NF; i++) found += $i == mark }
        !found { next }
        FNR == NR { for (i = 2; i <= NF; i++) { split($i, f, "="); before[f[1]] = f[2] } next }
        { text = ""
          for (i = 2; i <= NF; i++) { split($i, f, "=")
            if (f[1] !~ /^(mark|pid|ended|state|outstanding_ns|shut)$/ && f[2] != before[f[1]])
                text = text sprintf("%s\"%s\": %.0f", text == "" ? "" : ", ", f[1],
                                    f[2] - before[f[1]]) } }
        END { print "{" text "}" }' "$1" "$2"
}
say() { echo "$1" | tee -a "$result"; }

# ---- points ----

fits() { # fits SECONDS NAME
    [ $((SECONDS + $1 + 10)) -le "$budget_s" ] && return
    echo "frontier: no time left for \"$2\"" >&2
    return 1
}
limit() { # limit WINDOW GATE PLACE
    tell agent "gate-place $3"
    tell agent "linger-us $linger"
    tell agent "window-us $1"
    tell agent "gate-us $2"
}
pause() {
    touch "$work/pause"
    until [ "$(tail -n 1 "$work/train.log")" = paused ]; do
        sleep 0.05; kill -0 "${pids[task]}"
    done
}
resume() { rm -f "$work/pause"; }
now() { awk '$1 == "t" { t = $3 } END { print t + 0 }' "$work/train.log"; } # by the task's clock
speed_between() { # speed_between START END: of the task, in its windows inside this time
    awk -v from="$1" -v to="$2" \
        '$1 == "t" && $2 >= from && $3 <= to { samples += $5 * ($3 - $2); s += $3 - $2 }
        END { printf "%.1f", s ? samples / s : 0 }' "$work/train.log"
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", b ? a / b : 0 }'; }
field() { sed -E "s/.*\"$1\": ([0-9.]+).*/\\1/" <<< "$2"; }
serve() { # one round, with twice the expected time as the limit
    tell service "$requests $rate"
    hear service $((requests * 2 / rate + 60)) || die "the service has ended"
}
round_s=$(((requests + 150) / rate + 1))

task_point() { # task_point NAME: the task without requests
    local speed start
    fits "$alone_s" "$1" || return 0
    sleep "$settle_s"
    counters "$work/before"
    start=$(now)
    sleep "$alone_s"
    counters "$work/after"
    speed=$(speed_between "$start" "$(now)")
    [ "$1" != "task alone" ] || task_alone=$speed
    say "{\"point\": \"$1\", \"task_samples_per_s\": $speed, \"task_kept\": $(ratio "$speed" \
        "$task_alone"), \
\"task\": $(difference "$work/before" "$work/after" task)}"
}
service_point() { # the service while the task pauses
    local served
    fits $((round_s + 1)) "service alone" || return 0
    pause
    served=$(serve)
    resume
    p99_alone=$(field p99_ms "$served")
    say "{\"point\": \"service alone\", \"service\": $served}"
}
pair_point() { # pair_point NAME: both, under the present limits
    local served speed
    fits $((round_s + settle_s)) "$1" || return 0
    sleep "$settle_s"
    counters "$work/before"
    served=$(serve)
    counters "$work/after"
    speed=$(speed_between "$(field start "$served")" "$(field end "$served")")
    say "{\"point\": \"$1\", \"p99_over_alone\": $(ratio "$(field p99_ms "$served")" \
        "$p99_alone"), \
\"task_kept\": $(ratio "$speed" \
"$task_alone"), \"task_samples_per_s\": $speed, \"service\": $served, \
\"task\": $(difference "$work/before" "$work/after" task), \
\"service_counters\": $(difference "$work/before" "$work/after" service)}"
}
window_point() { # window_point WINDOW PLACE: device, host or none
    local words="gate on the $2" us=$gate_us place=0
    case $2 in
    host) place=1 ;;
    none) words="no gate" us=0 ;;
    esac
    [ "$share" = 100 ] || words="$words, share $share %"
    limit "$1" "$us" "$place"
    pair_point "window $1 us, $words"
}

# ---- tasks that end while their streams are shut ----

end_while_shut() { # end_while_shut SIGNAL ROUNDS
    local lost=0 shut=0 round worst_ms=0 began ms
    fits $(($2 * 3)) "$1 while shut" || return 0
    for ((round = 0; round < $2; round++)); do
        begin_with_shim victim task 1 "$work/launcher" "$here/workloads/burn.ptx"
        [ "$(ask victim open)" = 0 ] || die "the victim has no device"
        for _ in 1 2 3 4 5 6 7 8; do
            ask victim "kernels 1000 3" > /dev/null
            ask victim synchronize > /dev/null
        done
        ask burner "kernels 100000 8" > /dev/null
        ask victim "kernels 1000 15" > /dev/null
        sleep 0.05
        counters "$work/after"
        ! grep " mark=task " "$work/after" | tail -n 1 | grep -q " shut=1 " || shut=$((shut + 1))
        began=$(date +%s%N)
        end victim "$1" || true
        ms=$((($(date +%s%N) - began) / 1000000))
        [ "$ms" -le "$worst_ms" ] || worst_ms=$ms
        if [ "$(ask burner synchronize)" != 0 ] || [ "$(ask burner "kernels 1000 8")" -lt 0 ] ||
            [ "$(ask burner synchronize)" != 0 ]; then
            lost=$((lost + 1))
            end burner KILL || true
            begin_burner
        fi
    done
    say "{\"check\": \"$1 while shut\", \"rounds\": $2, \"shut\": $shut, \
\"neighbours_lost\": $lost, \"slowest_end_ms\": $worst_ms}"
}
begin_burner() {
    begin_with_shim burner service-burner 0 "$work/launcher" "$here/workloads/burn.ptx"
    [ "$(ask burner open)" = 0 ] || die "the burner has no device"
    ask burner "kernels 1000 8" > /dev/null
    ask burner synchronize > /dev/null
}
check_ends() {
    begin_agent --window-us 250 --gate-us 5000000
    begin_burner
    end_while_shut KILL 5
    end_while_shut TERM 5
    end burner || true
    end agent || true
}

# ---- main ----

mkdir -p "$out"
: > "$result"
shim=$(find_shim)
cc -O2 -D_GNU_SOURCE -I"$here/src" "$here/tests/shim/registrar.c" -o "$work/registrar"
cc -O2 -D_GNU_SOURCE -I"$here/src" "$here/tests/shim/launcher.c" "$here/src/base/library.c" \
    -o "$work/launcher" -ldl -lpthread
if [ "$mps" != 0 ]; then
    export CUDA_MPS_PIPE_DIRECTORY=$work/pipe CUDA_MPS_LOG_DIRECTORY=$work/log
    mkdir "$work/pipe" "$work/log"
    nvidia-cuda-mps-control -d
fi
cd "$here/bench/gpu"
if [ "${CHECK:-1}" != only ]; then
    begin_agent
    begin_with_shim service service 0 "$python" serve.py --rounds
    begin_task 100
    wait_ready service train
    task_alone=0 p99_alone=0 place=$gate
    [ "$gate" != both ] || place=device
    limit 0 0 0
    task_point "task alone"
    if [ "$share" != 100 ]; then
        end_task
        begin_task "$share"
        wait_ready train
    fi
    first=${windows%% *}
    for ((round = 1; round <= rounds; round++)); do
        limit 0 0 0
        service_point
        for window in $windows; do
            window_point "$window" "$place"
            if [ "$extra" != 0 ] && [ "$round/$window" = "1/$first" ]; then
                task_point "task beside an idle service, window $window us"
            fi
        done
    done
    if [ "$extra" != 0 ]; then
        service_point
        [ "$gate" != both ] || window_point "$first" host
        limit 0 0 0
        pair_point "no gate, no window"
    fi
    end_task
    end service || true
    end agent || true
fi
[ "${CHECK:-1}" = 0 ] || check_ends
