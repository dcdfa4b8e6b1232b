#!/bin/bash
# The emulated libraries export what their lists of calls name, and nothing else.
set -u
failures=0

# check LIBRARY LIST: a list's LACK and CALL, and their variants.
check() {
    local difference
    difference=$(diff <(nm -D --defined-only "$GPUMUX_BUILD/emu/$1" | awk '{ print $3 }' | sort) \
        <(sed -nE 's/^(CALL|TEXT|LACK)\(([A-Za-z0-9_]+)(, [A-Za-z0-9_]+, [0-9]+, (ptds|ptsz))?.*/\2 \2_\4/p' "$GPUMUX_SOURCE/$2" \
            | tr ' ' '\n' | grep -v '_$' | sort)) || {
        echo "$1 and $2 differ:"
        echo "$difference"
        failures=$((failures + 1))
    }
    readelf -d "$GPUMUX_BUILD/emu/$1" | grep -q "SONAME.*\[$1\]" || {
        echo "$1 does not have its name as SONAME"
        failures=$((failures + 1))
    }
}

check libcuda.so.1 api/cuda_calls.def
check libnvidia-ml.so.1 api/nvml_calls.def
[ "$failures" = 0 ]
