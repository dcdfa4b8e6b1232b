#!/bin/bash
# frontier.sh [--part N] [--requests N] [--out DIR]: a service beside a training task on a real GPU.
#
# The setting: ResNet-50 inference (fp16, batch 8, a CUDA graph) at Poisson 150 requests/s, latency from
# the due time; ResNet-50 training (batch 128, bf16 autocast) beside it, both under the shim, tests/shim/registrar
# as their agent. Every line of DIR/frontier-N.jsonl is one point: p50 and p99 of the service, and the part
# of its own speed that the task kept while the service ran.
#
#   part 1  under MPS with client priorities: alone, no gate, windows of 100, 250, 500, 1000 us
#   part 2  without MPS: the same windows
#
# Needs PyTorch, a C compiler, SHIM=PATH of libgpumux-cuda.so. Changes no setting of the card.
set -Eeuo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
part=1 requests=6000 out=${OUT:-$PWD} rate=150 windows=${WINDOWS:-100 250 500 1000}
while [ $# -gt 0 ]; do
    case $1 in
    --part) part=$2 ;;
    --requests) requests=$2 ;;
    --out) out=$2 ;;
    *) echo "usage: frontier.sh [--part N] [--requests N] [--out DIR]" >&2; exit 2 ;;
    esac
    shift 2
done
: "${SHIM:?set it to the path of libgpumux-cuda.so}"
work=$(mktemp -d /tmp/gmf.XXXXXX)
result=$out/frontier-$part.jsonl
: > "$result"
cc -O2 -D_GNU_SOURCE -I"$here/src" "$here/tests/shim/registrar.c" -o "$work/registrar"
cd "$here/bench/gpu"

finish() {
    trap - EXIT
    kill $(jobs -p) 2> /dev/null || true
    [ "$part" != 1 ] || echo quit | nvidia-cuda-mps-control > /dev/null 2>&1 || true
    rm -rf "$work"
}
trap finish EXIT
if [ "$part" = 1 ]; then
    export CUDA_MPS_PIPE_DIRECTORY=$work/pipe CUDA_MPS_LOG_DIRECTORY=$work/log
    mkdir "$work/pipe" "$work/log"
    nvidia-cuda-mps-control -d
fi

agent() { # agent OPTIONS...: a registrar with these limits
    rm -f "$work/socket"
    "$work/registrar" --socket "$work/socket" "$@" < <(sleep infinity) > "$work/registrar.log" 2>&1 &
    agent_pid=$!
    until [ -S "$work/socket" ]; do sleep 0.05; done
}
end_agent() { kill -TERM "$agent_pid"; wait "$agent_pid" 2> /dev/null || true; }
with_shim() { # with_shim MARK PRIORITY COMMAND...; becomes it: in a subshell, or in the background
    local mark=$1 priority=$2
    shift 2
    exec env GPUMUX_MARK="$mark" GPUMUX_REGISTER="$work/socket" CUDA_MPS_CLIENT_PRIORITY="$priority" \
        LD_PRELOAD="$SHIM" "$@"
}
speed_between() { # speed_between FILE START END: mean of the task's windows that lie inside
    awk -v from="$2" -v to="$3" '$1 == "t" && $2 >= from && $3 <= to { sum += $5; n++ } END { print n ? sum / n : 0 }' "$1"
}
point() { # point NAME TASK_ALONE_SPEED OPTIONS...: the service beside the task
    local name=$1 alone=$2 served from to speed
    shift 2
    agent "$@"
    with_shim task 1 python3 train.py --seconds 600 > "$work/train.log" 2> "$work/train.err" &
    local task=$!
    until grep -q ready "$work/train.err"; do kill -0 $task; sleep 0.1; done
    served=$(with_shim service 0 python3 serve.py --requests "$requests" --rate "$rate" 2> /dev/null)
    from=$(sed -E 's/.*"start": ([0-9.]+).*/\1/' <<< "$served")
    to=$(sed -E 's/.*"end": ([0-9.]+).*/\1/' <<< "$served")
    kill -TERM $task
    wait $task 2> /dev/null || true
    speed=$(speed_between "$work/train.log" "$from" "$to")
    end_agent
    printf '{"point": "%s", "service": %s, "task_samples_per_s": %s, "task_kept": %s, "counters": "%s"}\n' "$name" "$served" "$speed" \
        "$(awk -v a="$speed" -v b="$alone" 'BEGIN { printf "%.3f", a / b }')" "$(grep '^process' "$work/registrar.log" | tr '"\n' "' ")" | tee -a "$result"
}

agent
served=$(with_shim service 0 python3 serve.py --requests "$requests" --rate "$rate" 2> /dev/null)
printf '{"point": "service alone", "service": %s}\n' "$served" | tee -a "$result"
(with_shim task 1 python3 train.py --seconds 6 > "$work/alone.log" 2> /dev/null)
alone=$(speed_between "$work/alone.log" 0 1e18)
printf '{"point": "task alone", "task_samples_per_s": %s}\n' "$alone" | tee -a "$result"
end_agent
[ -n "${SKIP_OPEN:-}" ] || point "no gate, no window" "$alone"
for window in $windows; do
    point "window $window us" "$alone" --window-us "$window" --gate-us 20000 ${AGENT_OPTIONS:-}
done
