#!/bin/bash
# The assertions of conformance, on emulated devices. On a real one, run the binary as it is.
set -u
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_RUNTIME_DIR=$dir GPUMUX_EMU_DEVICES=2xH200:24g LD_LIBRARY_PATH=$GPUMUX_BUILD/emu
unset GPUMUX_EMU CUDA_VISIBLE_DEVICES
"$1"
