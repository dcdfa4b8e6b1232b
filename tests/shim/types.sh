#!/bin/bash
# Compares every type and call that gpumux knows of the CUDA driver and of NVML with NVIDIA's own
# headers: those of scripts/headers, or of an installed toolkit. Only compiles.
#
#   types.sh NVML_TYPES_CHECK.C
set -u
nvml_types_check=$1
cc=${CC:-cc}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# find_folder HEADER...: prints the first folder that has all of them.
find_folder() {
    local folder name
    for folder in "$GPUMUX_SOURCE"/build/headers/nvidia/*/include \
        "${CUDA_HOME:-/usr/local/cuda}/include" /usr/local/cuda*/include /usr/include; do
        for name; do [ -f "$folder/$name" ] || continue 2; done
        echo "$folder"
        return
    done
}
cuda=$(find_folder cuda.h cudaTypedefs.h)
nvml=$(find_folder nvml.h)
if [ -z "$cuda" ] || [ -z "$nvml" ]; then
    echo "no cuda.h, cudaTypedefs.h and nvml.h on this machine: run scripts/headers"
    [ "${CI:-}" != true ] || exit 1
    exit 77
fi
version=$(sed -nE 's/^#define CUDA_VERSION +([0-9]+).*/\1/p' "$cuda/cuda.h")

# ---- the CUDA driver ----

# The list of calls as lines SAME(symbol, NVIDIA's type, parameters...). Calls that are newer than
# the header are left out, and calls without a type in the header that the shim does not know. A
# call may take several lines.
awk -v newest="$version" -v typedefs="$cuda/cudaTypedefs.h" '
    BEGIN {
        while ((getline line < typedefs) > 0)
            while (match(line, /PFN_[A-Za-z0-9_]+/)) {
                has[substr(line, RSTART, RLENGTH)] = 1
                line = substr(line, RSTART + RLENGTH)
            }
    }
    function same(symbol, type, is_known) {
        if (version <= newest && (is_known || type in has)) {
            print "SAME(" symbol ", " type types ")"
            kept++
        } else {
            left++
        }
    }
    /^(CALL|LACK)\(/ { call = ""; inside = 1 }
    inside { sub(/^ +/, " "); call = call $0 }
    inside && /\)$/ {
        inside = 0
        has_errors = call ~ /^CALL/
        sub(/^[A-Z]+\(/, "", call); sub(/\)$/, "", call)
        if (has_errors) sub(/, "[A-Z_ ]*"/, "", call)
        split(call, field, ", ")
        symbol = field[1]; name = field[2]; version = field[3]; variant = field[4]; how = field[5]
        if (how == "none" && !has_errors) next
        types = substr(call, length(symbol name version variant how) + 9)
        same(symbol, "PFN_" name "_v" version, how != "none")
        if (variant == "legacy") next
        if (version < 7000) version = 7000
        same(symbol "_" variant, "PFN_" name "_v" version "_" variant,
             how != "none" && how != "used")
    }
    END { print kept + 0, left + 0 > "/dev/stderr" }' \
    "$GPUMUX_SOURCE/api/cuda_calls.def" > "$dir/calls.def" 2> "$dir/count"
read -r kept left < "$dir/count"
[ "$kept" -gt 100 ] || { echo "only $kept calls were read from api/cuda_calls.def"; exit 1; }

# The list of results, without those that are newer than the header.
sed -nE 's/^RESULT\(([A-Z0-9_]+),.*/\1/p' "$GPUMUX_SOURCE/api/cuda_results.def" \
    | while read -r name; do
    ! grep -qw "$name" "$cuda/cuda.h" \
        || grep "^RESULT($name," "$GPUMUX_SOURCE/api/cuda_results.def"
done > "$dir/results.def"
[ "$(wc -l < "$dir/results.def")" -gt 80 ] \
    || { echo "only few results were found in cuda.h"; exit 1; }

# check_cuda LIST: compiles the assertions.
check_cuda() {
    "$cc" -std=gnu17 -fsyntax-only -I"$GPUMUX_SOURCE/src" -isystem "$cuda" \
        -D__CUDA_API_VERSION_INTERNAL \
        -DCUDA_HEADER "-DCUDA_CALLS=\"$1\"" "-DCUDA_RESULTS=\"$dir/results.def\"" \
        "$GPUMUX_SOURCE/tests/shim/cuda_types_check.c"
}
check_cuda "$dir/calls.def" || exit 1

# ---- NVML ----

# Our types beside NVIDIA's, under names of their own.
sed -E -e '/call_SYMBOL/,$d; /^#include/d; s/\bnvml[A-Z]/ours_&/g; s/\bNVML_[A-Z]/OURS_&/g' \
    -e 's/ours_nvmlReturn;/nvmlReturn;/' "$GPUMUX_SOURCE/src/abi/nvml.h" > "$dir/ours.h"
# check_nvml LIST: compiles the assertions.
check_nvml() {
    "$cc" -std=gnu17 -fsyntax-only -Wno-deprecated-declarations -isystem "$nvml" \
        "-DNVML_CALLS=\"$1\"" "-DNVML_RESULTS=\"$GPUMUX_SOURCE/api/nvml_results.def\"" \
        "-DOURS=\"$dir/ours.h\"" \
        "$nvml_types_check"
}
check_nvml "$GPUMUX_SOURCE/api/nvml_calls.def" || exit 1

# ---- the checks can fail: each finds one wrong type ----

# finds CHECK SYMBOL SED FILE: the check of the edited file fails and names the symbol.
finds() {
    sed "$3" "$4" > "$dir/wrong.def"
    ! cmp -s "$4" "$dir/wrong.def" || { echo "nothing was edited in $4"; exit 1; }
    if "$1" "$dir/wrong.def" 2> "$dir/errors" || ! grep -q "$2" "$dir/errors"; then
        echo "a wrong type of $2 was not found"
        exit 1
    fi
}
finds check_cuda cuMemFree_v2 '/^SAME(cuMemFree_v2,/s/CUdeviceptr/int/' "$dir/calls.def"
finds check_nvml nvmlDeviceGetIndex '/^CALL(nvmlDeviceGetIndex,/s/unsigned \*/int */' \
    "$GPUMUX_SOURCE/api/nvml_calls.def"
echo "$kept calls are as CUDA $version has them, $left are newer; NVML's calls and types agree"
