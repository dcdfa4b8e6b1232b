#!/bin/bash
# The emulated libraries export what their lists of calls name, and nothing else.
set -u
failures=0

# check LIBRARY LIST...: the library exports the calls of the lists and their variants.
check() {
    local difference variant=', [A-Za-z0-9_]+, [0-9]+, (ptds|ptsz)'
    difference=$(diff <(nm -D --defined-only "$GPUMUX_BUILD/emu/$1" | awk '{ print $3 }' | sort) \
        <(sed -E ':join; /,$/ { N; s/\n +/ /; b join }' "${@:2}" \
            | sed -nE "s/^(CALL|TEXT|LACK)\(([A-Za-z0-9_]+)($variant)?.*/\2 \2_\4/p" \
            | tr ' ' '\n' | grep -v '_$' | sort)) || {
        echo "$1 and ${*:2} differ:"
        echo "$difference"
        failures=$((failures + 1))
    }
    readelf -d "$GPUMUX_BUILD/emu/$1" | grep -q "SONAME.*\[$1\]" || {
        echo "$1 does not have its name as SONAME"
        failures=$((failures + 1))
    }
}

cd "$GPUMUX_SOURCE" || exit 1
check libcuda.so.1 api/cuda_calls.def api/cuda_lacking.def
check libnvidia-ml.so.1 api/nvml_calls.def
[ "$failures" = 0 ]
