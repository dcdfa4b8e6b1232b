#!/bin/bash
# The emulated libraries export what their lists of calls name, and nothing else.
set -u
failures=0

# check LIBRARY LIST...
check() {
    local difference
    difference=$(diff <(nm -D --defined-only "$GPUMUX_BUILD/emu/$1" | awk '{ print $3 }' | sort) \
        <(cd "$GPUMUX_SOURCE/emu" && sed -nE 's/^(CALL|LACK|PER_THREAD)\(([A-Za-z0-9_]+).*/\2/p' "${@:2}" | sort)) || {
        echo "$1 and emu's ${*:2} differ:"
        echo "$difference"
        failures=$((failures + 1))
    }
    readelf -d "$GPUMUX_BUILD/emu/$1" | grep -q "SONAME.*\[$1\]" || {
        echo "$1 does not have its name as SONAME"
        failures=$((failures + 1))
    }
}

check libcuda.so.1 driver/cuda_calls.def driver/per_thread_calls.def
check libnvidia-ml.so.1 nvml/nvml_calls.def
[ "$failures" = 0 ]
