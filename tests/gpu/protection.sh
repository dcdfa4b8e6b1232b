#!/bin/bash
# protection.sh [--bundle TARBALL|DIR] [--out DIR] [--only TEXT] [--setting mps|turns|both]
# protection.sh --fetch
#
# Runs unmodified programs on a real GPU, each natively and under `gpumux run --quota`: PyTorch
# (caching allocator, expandable_segments, cudaMallocAsync, CUDA graphs, torch.compile, DataLoader
# workers, two processes, shared tensors), JAX, CuPy, Triton, ONNX Runtime, CUDA as built by nvcc
# with its runtime static and shared, the driver's interface alone, and the runtime of CUDA 11.8.
# frameworks.py lists the conditions for each. Takes about three minutes, at most eight. Writes
# DIR/protection-frameworks.json after every case ($OUT, else the current folder); cases that did
# not run are listed there as untested.
#
# Needs python3 and cc, and any of the frameworks. The bundle defaults to the newest in dist/.
# --fetch, on a machine with a Debian mirror, puts the runtime of CUDA 11.8 into dist/cudart11, for
# transfer to the machine with the GPU. GPUMUX_EMULATE=1 tests the script itself on a machine
# without a GPU.
set -Eeuo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
bundle= out=${OUT:-$PWD} options=()
while [ $# -gt 0 ]; do
    case $1 in
    --fetch)
        DEBIAN_COMPONENTS='main contrib non-free' exec "$here/scripts/fetch-debian" bookworm amd64 \
            "$here/dist/cudart11" libcudart11.0
        ;;
    --bundle) bundle=$2 ;;
    --out) out=$2 ;;
    --only | --setting) options+=("$1" "$2") ;;
    *) sed -n 's/^# \(protection.sh .*\)/usage: \1/p' "$0" >&2; exit 2 ;;
    esac
    shift 2
done
. "$here/bench/gpu/lab.sh"
export GPUMUX_LIMIT=${GPUMUX_LIMIT:-420}
status=0
timeout -k 30 "$GPUMUX_LIMIT" python3 "$here/tests/gpu/frameworks.py" \
    ${options[@]+"${options[@]}"} || status=$?
echo "protection: ended with status $status after $SECONDS s, written to protection-frameworks.json"
exit $status
