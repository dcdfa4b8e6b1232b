#!/bin/bash
# quick_close.sh REGISTRAR PROGRAM DRIVER_FOLDER: what ends quick launches (quick.h), each case of
# quick_close.c in a process of its own, with an agent of its own. All that was launched is counted
# in the end.
set -eu
registrar=$1 program=$2 driver=$3
shim=$GPUMUX_BUILD/lib/libgpumux-cuda-ticks.so
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$dir"' EXIT
unset GPUMUX_EMU CUDA_VISIBLE_DEVICES GPUMUX_DISABLE GPUMUX_QUOTA_BYTES
mkfifo "$dir/orders"
exec 3<> "$dir/orders"
failures=0 checks=0
sum() { sed -nE "s/(^|.* )$2=([0-9]+).*/\2/p" "$1" | awk '{ sum += $1 } END { printf "%d", sum }'; }

for name in $("$program"); do
    checks=$((checks + 1)) status=0
    : > "$dir/known"
    "$registrar" --socket "$dir/agent" --window-us 20000 <&3 3>&- > "$dir/known" &
    until grep -q ready "$dir/known"; do sleep 0.02; done
    env LD_LIBRARY_PATH="$driver" GPUMUX_REGISTER="$dir/agent" GPUMUX_MARK=task LD_PRELOAD="$shim" \
        timeout 150 \
        "$program" "$name" "$dir/orders" 3>&- > "$dir/output" 2>&1 || status=$?
    echo quit >&3
    wait $!
    launched=$(sum "$dir/output" launches) counted=$(sum "$dir/known" launches_kernel)
    [ "$launched" = 0 ] || [ "$launched" = "$counted" ] \
        || status="$status, $counted of $launched counted"
    [ "$status" = 0 ] && continue
    failures=$((failures + 1))
    echo "$name: status $status"
    sort "$dir/output" | uniq -c | head -n 20
done
echo "quick_close: $checks checks, $failures failures"
[ $checks -gt 0 ] && [ $failures -eq 0 ]
