#!/bin/bash
# hosts.sh HOST LINKED MEMORY_CALLS WORK_CALLS EARLY GREEN GREEN_DRIVER RARE RARE_DRIVER: programs
# of every kind with the shim preloaded, on an emulated device; two with the drivers in the folders
# GREEN_DRIVER and RARE_DRIVER.
set -u
host=$1 linked=$2 memory_calls=$3 work_calls=$4 early=$5 green=$6 green_driver=$7 rare=$8 \
    rare_driver=$9
ptx=$GPUMUX_SOURCE/workloads/burn.ptx
shim=$GPUMUX_BUILD/lib/libgpumux-cuda.so
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_RUNTIME_DIR=$dir GPUMUX_EMU_DEVICES=H200:24g LD_LIBRARY_PATH=$GPUMUX_BUILD/emu
unset GPUMUX_EMU CUDA_VISIBLE_DEVICES GPUMUX_REGISTER GPUMUX_DISABLE GPUMUX_QUOTA_BYTES \
    GPUMUX_SHIM_DEBUG
quota=$(((600 + 64) << 20)) # and a context's cost
# A sanitizer's runtime, linked into this build's programs, must stay the first library.
runtime=$(ldd "$host" | awk '/lib(asan|tsan)\.so/ { print $3 }')
preload="$runtime${runtime:+ }$shim"

. "$(dirname "$0")/expect.sh"
shimmed=(env LD_PRELOAD="$preload")

# The shim waits 15 s for an agent that was there and is gone. Then the process gets no device,
# whatever the environment says, because other processes may use the quota already. This check runs
# in the background.
/usr/bin/python3 -c 'import socket, sys
socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind(sys.argv[1])' "$dir/away"
"${shimmed[@]}" GPUMUX_REGISTER="$dir/away" GPUMUX_QUOTA_BYTES=$quota "$host" refusal \
    > "$dir/away.log" 2>&1 &
away=$!

expect lookups 0 "${shimmed[@]}" "$host" lookups
expect statuses 0 "${shimmed[@]}" "$host" statuses
expect "statuses without a shim" 1 "$host" lookups
expect quota 0 "${shimmed[@]}" GPUMUX_QUOTA_BYTES=$quota "$host" quota
expect "quota without a shim" 1 env GPUMUX_QUOTA_BYTES=$quota "$host" quota
expect threads 0 "${shimmed[@]}" GPUMUX_QUOTA_BYTES=$quota "$host" threads
expect "first calls at once" 0 "${shimmed[@]}" "$host" first
expect forks 0 "${shimmed[@]}" GPUMUX_QUOTA_BYTES=$quota "$host" forks
expect signals 0 "${shimmed[@]}" "$host" signals
expect unloading 0 "${shimmed[@]}" GPUMUX_QUOTA_BYTES=$quota "$host" unloading
expect disabled 0 "${shimmed[@]}" GPUMUX_DISABLE=1 GPUMUX_QUOTA_BYTES=$quota "$host" disabled
expect "bound at start" 0 "${shimmed[@]}" LD_BIND_NOW=1 GPUMUX_QUOTA_BYTES=$quota "$host" quota
expect "a quota that is no number is none" 0 \
    "${shimmed[@]}" GPUMUX_QUOTA_BYTES=64m "$host" lookups
expect "refusal" 0 "${shimmed[@]}" GPUMUX_REGISTER="$dir/nobody" "$host" refusal
expect "the environment's limits when no agent answers" 0 \
    "${shimmed[@]}" GPUMUX_REGISTER="$dir/nobody" GPUMUX_QUOTA_BYTES=$quota "$host" quota

expect "NVML alone" 0 "${shimmed[@]}" GPUMUX_QUOTA_BYTES=$quota "$host" nvml
gib=$(((600 + 1024) << 20))
expect "every call that takes memory" 0 "${shimmed[@]}" GPUMUX_EMU_DEVICES=2xH200:24g \
    GPUMUX_QUOTA_BYTES=$gib "$memory_calls" "$dir/made"
expect "every call that takes memory, without a shim" 1 "$memory_calls"
expect "every other call" 0 "${shimmed[@]}" GPUMUX_WINDOW_US=1000 "$work_calls" "$ptx" "$dir/made"
expect "every other call, without a shim" 0 "$work_calls" "$ptx"

# Calls that the emulated driver lacks, with a driver that has them: free and charged, found and
# linked; and with a disabled shim.
with_rare=(LD_LIBRARY_PATH="$rare_driver" GPUMUX_QUOTA_BYTES=$(((2 * 600 + 300) << 20)))
expect "rare calls" 0 "${shimmed[@]}" "${with_rare[@]}" "$rare" limited found "$dir/made"
expect "rare calls, charged" 0 \
    "${shimmed[@]}" "${with_rare[@]}" GPUMUX_WINDOW_US=1000 "$rare" limited found
expect "rare calls, linked" 0 "${shimmed[@]}" "${with_rare[@]}" "$rare" limited linked
expect "rare calls, disabled" 0 \
    "${shimmed[@]}" "${with_rare[@]}" GPUMUX_DISABLE=1 "$rare" free found
expect "rare calls, linked and disabled" 0 \
    "${shimmed[@]}" "${with_rare[@]}" GPUMUX_DISABLE=1 "$rare" free linked
expect "rare calls, without a device" 0 "${shimmed[@]}" LD_LIBRARY_PATH="$rare_driver" \
    GPUMUX_REGISTER="$dir/nobody" "$rare" refused found
expect "rare calls, without a shim" 0 env "${with_rare[@]}" "$rare" free found
expect "limits on rare calls, without a shim" 1 env "${with_rare[@]}" "$rare" limited found

# The three programs have made every call that has a hook with success. They have also made every
# call that the shim only passes on, except the calls that the emulated driver lacks.
checks=$((checks + 1))
# listed MACROS KINDS: the calls of the table that are of these kinds, and their variants.
listed() {
    sed -E ':join; /,$/ { N; s/\n +/ /; b join }' "$GPUMUX_SOURCE/api/cuda_calls.def" \
        | sed -nE "s/^($1)\(([A-Za-z0-9_]+), [A-Za-z0-9_]+, [0-9]+, ([a-z]+), ($2)\>.*/\2 \2_\3/p" \
        | tr ' ' '\n' | grep -v '_legacy$' | sort
}
listed LACK '[a-z]+' > "$dir/lacking"
sed -n 's/ granted$//p' "$dir/made" | sort -u > "$dir/granted"
sed -n 's/ lacked$//p' "$dir/made" | sort | comm -12 - "$dir/lacking" \
    | sort -u - "$dir/granted" > "$dir/exercised"
{
    listed 'CALL|LACK' 'hook|copy|wait' | comm -23 - "$dir/granted"
    listed 'CALL|LACK' pass | comm -23 - "$dir/exercised"
} > "$dir/missing"
if [ -s "$dir/missing" ] || [ "$(listed 'CALL|LACK' 'hook|copy|wait' | wc -l)" -lt 150 ] \
    || [ "$(listed 'CALL|LACK' 'hook|copy|wait|pass' | wc -l)" -lt 200 ]; then
    echo "never called with success: $(tr '\n' ' ' < "$dir/missing")"
    failures=$((failures + 1))
fi

# In constructors and destructors of libraries before and behind the shim.
with_quota=(env GPUMUX_QUOTA_BYTES=$quota)
for order in "$shim $early" "$early $shim"; do
    order=$runtime${runtime:+ }$order
    expect "constructors, $order" 0 "${with_quota[@]}" LD_PRELOAD="$order" /bin/true
    [ ! -s "$dir/output" ] \
        || { echo "constructors: $(cat "$dir/output")"; failures=$((failures + 1)); }
    expect "constructors, $order, bound at start" 0 \
        "${with_quota[@]}" LD_BIND_NOW=1 LD_PRELOAD="$order" /bin/true
done
expect "constructors without a shim" 1 \
    "${with_quota[@]}" LD_PRELOAD="$runtime${runtime:+ }$early" /bin/true

# Every call returns the result of the driver.
expect "results without a shim" 0 "$host" results
mv "$dir/output" "$dir/plain"
expect "results" 0 "${shimmed[@]}" "$host" results
checks=$((checks + 1))
if ! diff "$dir/plain" "$dir/output" > "$dir/difference" \
    || [ "$(wc -l < "$dir/plain")" -lt 100 ]; then
    echo "results differ:"
    cat "$dir/difference"
    failures=$((failures + 1))
fi

# Linked with libcuda: within the quota, beyond it, and a name that no library exports.
# says WHAT TEXT: the last command printed TEXT.
says() {
    [ "$(cat "$dir/output")" = "$2" ] && return
    echo "$1: \"$(cat "$dir/output")\", wanted \"$2\""
    failures=$((failures + 1))
}
expect linked 0 env GPUMUX_QUOTA_BYTES=$quota "$linked"
says "linked, without a shim" "0 0 0"
expect linked 0 "${shimmed[@]}" GPUMUX_QUOTA_BYTES=$quota "$linked"
says linked "0 2 0"
expect linked 0 "${shimmed[@]}" LD_BIND_NOW=1 GPUMUX_QUOTA_BYTES=$quota "$linked"
says "linked, bound at start" "0 2 0"
expect linked 0 "${shimmed[@]}" GPUMUX_DISABLE=1 GPUMUX_QUOTA_BYTES=$quota "$linked"
says "linked, disabled" "0 0 0"

# A green context ends alone, or with the primary context that it made. At its exit the shim waits
# twice for the contexts that are left.
with_green=("${shimmed[@]}" LD_LIBRARY_PATH="$green_driver"
    GPUMUX_QUOTA_BYTES=$(((600 + 500) << 20)))
expect "a green context beside the primary one" 0 "${with_green[@]}" "$green" beside
says "a green context beside the primary one" $'primary is waited for\nprimary is waited for'
expect "a primary context behind a green one" 0 "${with_green[@]}" "$green" behind
says "a primary context behind a green one" ""
expect "contexts of threads that all find none" 0 \
    "${with_green[@]}" GREEN_LOOKERS=4 "$green" together
# The same where launches are charged. The shim waits for the context of a stream, if that is known,
# and for the context that was current.
with_green+=(GPUMUX_WINDOW_US=20000)
expect "a green context, charged" 0 "${with_green[@]}" "$green" beside
says "a green context, charged" $'primary is waited for\nprimary is waited for'
expect "streams of other contexts" 0 "${with_green[@]}" "$green" streams
waits=$'primary is waited for\ngreen is waited for'
says "streams of other contexts" "$waits"$'\n'"$waits"

# The shim prints a line only with GPUMUX_SHIM_DEBUG, and only on standard error.
checks=$((checks + 1))
said=$(env LD_PRELOAD="$preload" GPUMUX_SHIM_DEBUG=1 "$linked" 2>&1 > "$dir/output")
[ "$said" = "gpumux: limits from the environment, no agent" ] \
    && [ "$(cat "$dir/output")" = "0 0 0" ] || {
    echo "with GPUMUX_SHIM_DEBUG it said: $said, and on standard output: $(cat "$dir/output")"
    failures=$((failures + 1))
}

checks=$((checks + 1))
wait "$away" \
    || { echo "an agent that stays away: $(cat "$dir/away.log")"; failures=$((failures + 1)); }

echo "$checks checks, $failures failed"
[ "$failures" = 0 ]
