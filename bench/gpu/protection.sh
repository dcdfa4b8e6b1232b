#!/bin/bash
# protection.sh --list | --part PART [--run N] [--bundle TARBALL|DIR] [--out DIR] | --merge FILE
# JSON...
#
# The bars of protection on a real GPU, in parts of at most eight minutes including the cleanup
# after a killed part, so no limit is above 420 s. --list prints each part with its time and its
# subject. Each part writes DIR/protection-PART.json ($OUT, else the current folder) after every
# point, so that an interrupted part keeps its points. A part prints a line for every bar, and exits
# with 1 if a bar was missed. --run 2 and 3 write protection-PART-2.json and so on; --merge makes
# one file of the files of the parts, with the median of each point of several runs of a frontier.
#
# Needs python3 (3.9) and cc; nvcc for `calls` and `fault`; PyTorch for `steps`, `step-inside`,
# `step-parts`, `endings-torch`, `rate` and the frontier; nothing is downloaded or installed. The
# bundle defaults to the newest in dist/. Changes no setting of the card, and leaves no MPS daemon,
# task or folder behind. GPUMUX_EMULATE=1 rehearses a part on an emulated device; its numbers mean
# nothing.
set -Eeuo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)

# Prints lines "name|seconds expected|limit|what|command".
parts() {
    cat <<LIST
calls|40|300|price of single calls, native and shimmed alternating, without and with MPS|\
measure_calls.py
steps|230|420|ResNet-50 and BERT training step alone, native and under gpumux alternating|\
measure_steps.py
step-inside|40|180|the shim's own part of such a step, by its own account|measure_step_inside.py
step-parts|100|300|the step with less and less of what gpumux gives a task, down to MPS alone|\
measure_step_parts.py
endings-signals|200|420|gpumux-burn ended 200 times each by SIGTERM, SIGINT, SIGHUP, deep queue, \
neighbours under MPS|\
measure_endings.py burn SIGTERM SIGINT SIGHUP --name endings-signals
endings-kills|230|420|the same by SIGKILL, cancel, the out-of-memory killer, its own exit|\
measure_endings.py burn SIGKILL cancel oom exit --name endings-kills
endings-torch|150|420|PyTorch ended 5 times each in all seven ways|\
measure_endings.py torch SIGTERM SIGINT SIGHUP SIGKILL cancel oom exit --name endings-torch
kills|80|240|a killed client of MPS and its neighbours, without a shim: the device files closed, \
and held|\
measure_kills.py
fault|60|240|an illegal address: the service back, the device back, the guilty task found|\
measure_faults.py fault
monitor|40|180|a crossed hard memory limit: until the task has stopped|measure_faults.py monitor
rate|150|420|the rate loop without MPS at 20, 50 and 80 %|measure_rate.py
alone|170|300|a service alone: natively and with the shim, without and with MPS|measure_alone.py
frontier|360|420|a service at 150/s beside ResNet-50 training with MPS, windows of 100 to 1000 us|\
measure_frontier.py --name frontier --table RATE=150 REQUESTS=6000 CHECK=0
frontier-turns|360|420|a service at 150/s beside ResNet-50 training without MPS, windows of 100 to \
1000 us|\
measure_frontier.py --name frontier-turns MPS=0 RATE=150 REQUESTS=6000 CHECK=0
frontier-50|400|420|a service at 50/s beside ResNet-50 training with MPS|\
measure_frontier.py --name frontier-50 RATE=50 REQUESTS=6000 CHECK=0
frontier-300|220|420|a service at 300/s beside ResNet-50 training with MPS|\
measure_frontier.py --name frontier-300 RATE=300 REQUESTS=6000 CHECK=0
frontier-450|180|420|a service at 450/s beside ResNet-50 training with MPS|\
measure_frontier.py --name frontier-450 RATE=450 REQUESTS=6000 CHECK=0
frontier-300-space|180|420|a service at 300/s beside ResNet-50 training with MPS, which never \
waits but has half of the SMs|\
measure_frontier.py --name frontier-300-space --attempt RATE=300 REQUESTS=6000 CHECK=0 EXTRA=0 \
ROUNDS=3 WINDOWS=100 GATE=none SHARE=50
frontier-450-space|150|420|a service at 450/s beside ResNet-50 training with MPS, which never \
waits but has half of the SMs|\
measure_frontier.py --name frontier-450-space --attempt RATE=450 REQUESTS=6000 CHECK=0 EXTRA=0 \
ROUNDS=3 WINDOWS=100 GATE=none SHARE=50
frontier-bert|360|420|a service at 150/s beside BERT training with MPS|\
measure_frontier.py --name frontier-bert MODEL=bert RATE=150 REQUESTS=6000 CHECK=0
frontier-lstm|360|420|a service at 150/s beside LSTM training with MPS|\
measure_frontier.py --name frontier-lstm MODEL=lstm RATE=150 REQUESTS=6000 CHECK=0
LIST
}
usage() {
    echo "usage: protection.sh --list | --part PART [--run N] [--bundle TARBALL|DIR] [--out DIR]" \
        "| --merge FILE JSON..." >&2
    exit 2
}

bundle= out=${OUT:-$PWD} part=
[ $# -gt 0 ] || usage
while [ $# -gt 0 ]; do
    case $1 in
    --list)
        parts | awk -F '|' \
            '{ printf "%2d  %-22s about %3d s, at most %3d  %s\n", NR, $1, $2, $3, $4 }'
        exit
        ;;
    --merge)
        shift
        [ $# -ge 2 ] || usage
        exec python3 "$here/bench/gpu/merge.py" "$@"
        ;;
    --part) part=${2:?} ;;
    --run) export GPUMUX_RUN=${2:?} ;;
    --bundle) bundle=${2:?} ;;
    --out) out=${2:?} ;;
    *) usage ;;
    esac
    shift 2
done
IFS='|' read -r part _ limit _ command <<< "$(parts | awk -F '|' -v p="$part" '$1 == p || NR == p')"
[ -n "$part" ] || usage

. "$here/bench/gpu/lab.sh"
export GPUMUX_LIMIT=${GPUMUX_LIMIT:-$limit}
echo "protection: part $part, at most $GPUMUX_LIMIT s, into protection-$part.json"
# A part beyond its limit gets SIGTERM, to clean up, and 30 s later SIGKILL.
status=0
# shellcheck disable=SC2086
timeout -k 30 "$GPUMUX_LIMIT" python3 "$here"/bench/gpu/$command || status=$?
echo "protection: part $part ended with status $status after $SECONDS s"
exit $status
