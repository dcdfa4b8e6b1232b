#!/bin/bash
# matrix.sh --list | --part N | --pairs N,N... [--explore FILE] [--run N] [--out DIR]
#           [--bundle TARBALL|DIR] [option of matrix.py]... | --table JSON...
#
# Services beside training tasks on a real GPU, in every fixed mode and under gpumux, by turns. The
# programs are those of workloads/. A part has three pairs and takes at most 9.5 minutes, start and
# cleanup included. It writes DIR/matrix-N.json ($OUT, else the current folder) after every point,
# and prints a table: for each pair and target, the late requests and the speed of the task in each
# mode, and whether gpumux keeps the target at the speed of the fastest mode that does.
#
# Fixed modes: time slices without MPS; MPS with client priority (service 0, task 1); the same with
# half of the SMs for the task; the strict gate with a window of 250 us; on some pairs MPS alone,
# and the strict gate with 100 us; for information, the service alone beside all the other, paused
# programs. Targets: 1.25 and 3 times the latency of the service alone, without MPS: p99 of 3,000
# requests or more, else p95. If time is short, there are fewer turns, then shorter points.
#
# --explore FILE measures settings of the shim without gpumux's node (explore-*.json). A line of
# FILE is `NAME: COMMAND; COMMAND...`, with commands of tests/shim/registrar.c. Before each point
# all settings are off. {target_us} stands for the target, {p50_us}, {p95_us} and {p99_us} for
# latencies of the service alone; a line with {target_us} is measured once for each target
# (--factors 1.25,3).
#
# Needs python3 with PyTorch 2, and cc. GPUMUX_EMULATE=1 rehearses the programs' control flow on an
# emulated device, with kernels of gpumux-burn (or, with --cpu, tiny networks on the processor); its
# numbers mean nothing. Changes no setting of the card, and leaves no MPS daemon, task or folder.
set -Eeuo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
bundle= out=${OUT:-$PWD} options=()
[ $# -gt 0 ] || { sed -n 's/^# \(matrix.sh .*\)/usage: \1/p' "$0" >&2; exit 2; }
while [ $# -gt 0 ]; do
    case $1 in
    --list | --table) exec "${PYTHON:-python3}" "$here/bench/gpu/matrix.py" "$@" ;;
    --run) export GPUMUX_RUN=${2:?} ;;
    --bundle) bundle=${2:?} ;;
    --out) out=${2:?} ;;
    --explore) options+=("$1" "$(realpath "${2:?}")") ;;
    *) options+=("$1"); shift; continue ;;
    esac
    shift 2
done
. "$here/bench/gpu/lab.sh"
export GPUMUX_LIMIT=${GPUMUX_LIMIT:-545}
status=0
timeout -k 30 "$GPUMUX_LIMIT" "${PYTHON:-python3}" "$here/bench/gpu/matrix.py" "${options[@]}" \
    || status=$?
echo "matrix: ended with status $status after $SECONDS s"
exit $status
