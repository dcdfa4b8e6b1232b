#!/bin/bash
# swap.sh [--bundle TARBALL|DIR] [--out DIR] [--rounds N]
#
# A service on a full GPU needs 8 GiB more, beside a swappable training task of 40 GiB (ResNet-50 in
# PyTorch, with data in all its memory). In each round the service allocates and fills the 8 GiB,
# keeps them for some seconds, and frees them. Bars: no allocation fails, and no data changes; the
# allocation is answered within 1 s; the task is back at 95 % of its speed within 5 s after the
# memory is free. Writes DIR/swap.json ($OUT, else the current folder) after every point. Takes at
# most 4 minutes.
#
# Needs python3 with PyTorch 2. GPUMUX_EMULATE=1 rehearses the control flow on an emulated device,
# with programs on the driver API and a thirtieth of the sizes; its numbers mean nothing. Changes no
# setting of the card, and leaves no MPS daemon, task or folder.
set -Eeuo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
bundle= out=${OUT:-$PWD} options=()
while [ $# -gt 0 ]; do
    case $1 in
    --bundle) bundle=${2:?} ;;
    --out) out=${2:?} ;;
    *) options+=("$1" "${2:?}") ;;
    esac
    shift 2
done
. "$here/bench/gpu/lab.sh"
export GPUMUX_LIMIT=${GPUMUX_LIMIT:-225}
status=0
timeout -k 15 "$GPUMUX_LIMIT" "${PYTHON:-python3}" "$here/bench/gpu/swap.py" "${options[@]}" \
    || status=$?
echo "swap: ended with status $status after $SECONDS s"
exit $status
