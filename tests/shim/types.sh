#!/bin/bash
# Every type and call that the shim knows, against NVIDIA's own headers where there are some.
set -u
cc=${CC:-cc}
header=
for folder in "${CUDA_HOME:-/usr/local/cuda}/include" /usr/local/cuda*/include /usr/include; do
    if [ -f "$folder/cuda.h" ] && [ -f "$folder/cudaTypedefs.h" ]; then
        header=$folder
        break
    fi
done
if [ -z "$header" ]; then
    echo "no cuda.h and cudaTypedefs.h on this machine"
    exit 77
fi
version=$(sed -nE 's/^#define CUDA_VERSION +([0-9]+).*/\1/p' "$header/cuda.h")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Calls that the header is too old for are left out, and those that it has no type for, if the shim
# does not know them. A call may take several lines.
awk -v newest="$version" -v typedefs="$header/cudaTypedefs.h" '
    BEGIN { while ((getline line < typedefs) > 0) while (match(line, /PFN_[A-Za-z0-9_]+/)) {
        has[substr(line, RSTART, RLENGTH)] = 1; line = substr(line, RSTART + RLENGTH) } }
    function same(symbol, type, is_known) {
        if (version <= newest && (is_known || type in has)) { print "SAME(" symbol ", " type types ")"; kept++ } else { left++ }
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
        same(symbol "_" variant, "PFN_" name "_v" version "_" variant, how != "none" && how != "used")
    }
    END { print kept + 0, left + 0 > "/dev/stderr" }' \
    "$GPUMUX_SOURCE/api/cuda_calls.def" > "$dir/calls.def" 2> "$dir/count"
read -r kept left < "$dir/count"
[ "$kept" -gt 100 ] || { echo "only $kept calls were read from api/cuda_calls.def"; exit 1; }

# Results that the header is too old for, likewise.
sed -nE 's/^RESULT\(([A-Z0-9_]+),.*/\1/p' "$GPUMUX_SOURCE/api/cuda_results.def" \
    | while read -r name; do
    ! grep -qw "$name" "$header/cuda.h" \
        || grep "^RESULT($name," "$GPUMUX_SOURCE/api/cuda_results.def"
done > "$dir/results.def"
[ "$(wc -l < "$dir/results.def")" -gt 80 ] \
    || { echo "only few results were found in cuda.h"; exit 1; }

# check LIST: compiles the assertions.
check() {
    "$cc" -std=gnu17 -fsyntax-only -I"$GPUMUX_SOURCE/src" -isystem "$header" \
        -D__CUDA_API_VERSION_INTERNAL \
        -DCUDA_HEADER "-DCUDA_CALLS=\"$1\"" "-DCUDA_RESULTS=\"$dir/results.def\"" \
        "$GPUMUX_SOURCE/tests/shim/cuda_types_check.c"
}
check "$dir/calls.def" || exit 1
# It can fail: one wrong type is found.
sed 's/SAME(cuMemFree_v2, PFN_cuMemFree_v3020, CUdeviceptr)/SAME(cuMemFree_v2, PFN_cuMemFree_v3020, int)/' \
    "$dir/calls.def" > "$dir/wrong.def"
if check "$dir/wrong.def" 2> "$dir/errors" || ! grep -q 'cuMemFree_v2' "$dir/errors"; then
    echo "a wrong type was not found"
    exit 1
fi
echo "$kept calls are as CUDA $version has them, $left are newer"
