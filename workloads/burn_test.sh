#!/bin/bash
# gpumux-burn on an emulated device: output, duration and exit status.
set -u
burn=$GPUMUX_BUILD/workloads/gpumux-burn
profile=$GPUMUX_SOURCE/data/h200_train_solo.csv
lists=$GPUMUX_SOURCE/data/h200_mode_kernels.csv
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_RUNTIME_DIR=$work LD_LIBRARY_PATH=$GPUMUX_BUILD/emu
export GPUMUX_EMU_DEVICES=H200:24g GPUMUX_EMU_SPEED=4
unset GPUMUX_EMU CUDA_VISIBLE_DEVICES GPUMUX_WORKLOAD_ID
failures=0

fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

# expect STATUS PATTERN ARGUMENTS...: the exit status, and a line that matches in the output
expect() {
    local status=$1 pattern=$2 output actual
    shift 2
    output=$("$burn" "$@" 2>&1)
    actual=$?
    [ "$actual" = "$status" ] || fail "gpumux-burn $*: exit status $actual, not $status: $output"
    grep -Eq -- "$pattern" <<<"$output" \
        || fail "gpumux-burn $*: no line like '$pattern' in: $output"
}

expect 0 '^Usage:' --help
expect 0 '^step=20 samples=10240 .* done$' --profile "$profile" --model vgg16 --batch 512 \
    --samples 10240
expect 0 '^step=50 samples=50 .* done$' --step-ms 2 --busy-percent 50 --steps 50
expect 0 '^requests=100 p50_ms=[0-9.]+ .* done$' --service --rate 500 --kernel-ms 1 --requests 100
expect 0 '^requests=50 mean_ms=[1-9][0-9.]* done$' --service --one-by-one --rate 500 \
    --kernel-ms 4 --kernels-per-request 4 --gap-ms 1 --requests 50
expect 0 '^step=50 samples=50 .* done$' --kernel-list "$lists" --model task --steps 50
expect 0 '^requests=50 p50_ms=[0-9.]+ .* done$' --service --rate 500 --kernel-list "$lists" \
    --model service --requests 50
expect 7 'done$' --step-ms 2 --steps 2 --exit 7
expect 134 '' --step-ms 2 --crash-after 3
# Above the noise scale a sample counts less: here a tenth.
expect 0 '^step=200 samples=2000 .* done$' --step-ms 1 --batch 100 --reference-batch 1 \
    --noise-scale 10 --samples 2000

expect 2 'vgg16.*from 128 to 1024, not 4096' --profile "$profile" --model vgg16 --batch 4096
expect 2 "no model 'vgg99'" --profile "$profile" --model vgg99
expect 1 'cannot read the profile' --profile "$work/none.csv" --model vgg16
{ head -n 1 "$profile"; sed -n 2p "$profile" | sed 's/,[^,]*/,inf/2'; } > "$work/infinite.csv"
expect 2 "line 2: 'iter_ms' is not a number" --profile "$work/infinite.csv" --model vgg16
{ cat "$profile"; printf 'vgg16,%01100d\n' 1; } > "$work/long.csv"
expect 2 'longer than 1022 bytes' --profile "$work/long.csv" --model vgg16
expect 2 'go together' --profile "$profile"
expect 2 'no step time'
expect 2 'not both' --profile "$profile" --kernel-list "$lists" --model task
expect 2 "no workload 'nobody'" --kernel-list "$lists" --model nobody
expect 2 'go together' --service --rate 1 --kernel-list "$lists"
expect 2 "line 2: not 'workload" --kernel-list "$profile" --model task
expect 2 'number from 0 to 100' --step-ms 1 --sm 101
expect 2 'needs a unit' --step-ms 1 --memory 100
expect 2 'needs --rate' --service
expect 2 "unexpected argument 'surplus'" --step-ms 1 surplus
expect 0 '^requests=0 .* done$' --service --rate 1000 --kernel-ms 3000000 --requests 3 --leave-queue
expect 1 'out of device memory: 25600 MiB wanted, 24576 MiB free' --step-ms 1 --memory 25g
CUDA_VISIBLE_DEVICES='' expect 1 'CUDA_VISIBLE_DEVICES' --step-ms 1
GPUMUX_WORKLOAD_ID=1 GPUMUX_ATTEMPT=1 GPUMUX_CONTROL=$work/none GPUMUX_BATCH_SIZE=256 expect 0 \
    '^step=4 samples=1024 .* done$' --profile "$profile" --model vgg16 --batch 512 --samples 1024
LD_LIBRARY_PATH=$work GPUMUX_EMU_DEVICES= expect 1 'no CUDA driver|no device' --step-ms 1 --steps 1

# The speed is that of the profile (5404 samples a second at batch size 128), less late wake-ups,
# which cost little on a slow device, however busy this machine is.
mkdir "$work/slow"
rate=$(XDG_RUNTIME_DIR=$work/slow GPUMUX_EMU_SPEED=0.1 "$burn" --profile "$profile" --model vgg16 \
    --batch 128 \
    --samples 1920 | sed -n 's/.*samples_per_s=\([0-9]*\).* done$/\1/p')
[ "${rate:-0}" -ge 3500 ] && [ "$rate" -le 5500 ] \
    || fail "vgg16 alone makes $rate samples/s, not about 5404"

# SIGTERM ends gpumux-burn after the current step.
"$burn" --step-ms 5 >"$work/out" &
pid=$!
until grep -q '^step=' "$work/out"; do sleep 0.05; done
kill -TERM "$pid"
wait "$pid"
status=$?
[ "$status" = 143 ] || fail "after SIGTERM: exit status $status, not 143"
grep -q ' stopped$' "$work/out" || fail "after SIGTERM: no last line"

[ "$failures" = 0 ]
