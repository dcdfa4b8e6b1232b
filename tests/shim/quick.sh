#!/bin/bash
# quick.sh REGISTRAR STILL_FOLDER: nearly all launches of a task that has its device to itself are
# quick ones (quick.h), and none is where there is a gate, a small window or a rate, or for a
# service.
set -eu
registrar=$1 still=$2
shim=$GPUMUX_BUILD/lib/libgpumux-cuda-ticks.so here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$dir"' EXIT
unset GPUMUX_EMU CUDA_VISIBLE_DEVICES GPUMUX_DISABLE GPUMUX_QUOTA_BYTES
mkfifo "$dir/held"
exec 3<> "$dir/held"
failures=0 checks=0

# expect LEAST MOST MARK OPTION...: quick launches in a thousand, of a task or a service with such
# limits.
expect() {
    local least=$1 most=$2 mark=$3 said
    shift 3
    checks=$((checks + 1))
    "$registrar" --socket "$dir/$checks" "$@" <&3 > "$dir/$checks.log" &
    until grep -q ready "$dir/$checks.log"; do sleep 0.02; done
    said=$(LD_LIBRARY_PATH=$still GPUMUX_REGISTER=$dir/$checks GPUMUX_MARK=$mark LD_PRELOAD=$shim \
        timeout 60 \
        /usr/bin/python3 "$here/quick.py")
    { [ "$said" -ge "$least" ] && [ "$said" -le "$most" ]; } && return
    failures=$((failures + 1))
    echo "$mark, $*: $said in a thousand are quick; wanted: $least to $most"
}
expect 950 1000 task --window-us 20000
expect 950 1000 task --lease-ms 600000
expect 0 0 task --window-us 20000 --gate-us 20000
expect 0 0 task --window-us 1000
expect 0 0 task --window-us 20000 --rate-permille 999
expect 0 0 service
echo "quick: $checks checks, $failures failures"
[ $failures -eq 0 ]
