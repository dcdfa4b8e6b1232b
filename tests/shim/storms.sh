#!/bin/bash
# storms.sh STORM REGISTRAR WORK_CALLS RARE RARE_DRIVER: programs with the shim that fork, are
# interrupted or do nothing, with an agent that is no more than its socket. STORM_SIZE: how many
# children, and signals. RARE_DRIVER is the folder of RARE's driver.
set -u
storm=$1 registrar=$2 work_calls=$3 rare=$4 rare_driver=$5
shim=$GPUMUX_BUILD/lib/libgpumux-cuda.so
ptx=$GPUMUX_SOURCE/workloads/burn.ptx
size=${STORM_SIZE:-160}
dir=$(mktemp -d)
agent=
trap '[ -z "$agent" ] || kill "$agent"; rm -rf "$dir"' EXIT
export XDG_RUNTIME_DIR=$dir GPUMUX_EMU_DEVICES=H200:24g GPUMUX_EMU_CONTEXT_MIB=0 \
    LD_LIBRARY_PATH=$GPUMUX_BUILD/emu
unset GPUMUX_EMU CUDA_VISIBLE_DEVICES GPUMUX_REGISTER GPUMUX_DISABLE GPUMUX_QUOTA_BYTES \
    GPUMUX_SHIM_DEBUG
runtime=$(ldd "$storm" | awk '/lib(asan|tsan)\.so/ { print $3 }')
preload="$runtime${runtime:+ }$shim"
mkfifo "$dir/orders"
failures=0 checks=0
fail() {
    echo "$*"
    failures=$((failures + 1))
}

# with_agent OPTIONS... -- COMMAND...: runs the command beside a new agent. Its output goes to
# $dir/output, the agent's final list of processes to $dir/known.
with_agent() {
    local options=() status=0
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    checks=$((checks + 1))
    "$registrar" --socket "$dir/agent" "${options[@]}" < "$dir/orders" > "$dir/known" &
    agent=$!
    exec 9> "$dir/orders"
    until grep -q ready "$dir/known"; do kill -0 "$agent" || exit 1; sleep 0.01; done
    env GPUMUX_REGISTER="$dir/agent" GPUMUX_MARK=task LD_PRELOAD="$preload" timeout 150 "$@" \
        9>&- > "$dir/output" 2> "$dir/errors" || status=$?
    echo quit >&9
    exec 9>&-
    wait "$agent"
    agent=
    [ "$status" = 0 ] && [ ! -s "$dir/errors" ] && return
    fail "$*: status $status"
    head -n 20 "$dir/output" "$dir/errors"
}
processes() { grep -c '^process ' "$dir/known"; }
# number NAME WORD: of the last command's output. sum NAME: over all processes.
number() { sed -nE "s/(^|.* )$1=([0-9]+).*/\2/p" "$dir/output"; }
sum() {
    sed -nE "s/.* $1=([0-9]+).*/\1/p" "$dir/known" | awk '{ sum += $1 } END { printf "%d", sum }'
}

# Every process is one of its own, and none is met twice. Not with a sanitizer's runtime, which does
# not support children of a program with threads: an allocator may be locked by a thread that the
# child does not have.
if [ -z "$runtime" ]; then
    with_agent -- "$storm" children "$ptx" "$((size / 4))"
    [ "$(processes)" = "$(number used)" ] \
        || fail "$(number used) processes used the device, $(processes) registered"
    [ "$(sum launches_kernel)" = $((2 * $(number used))) ] \
        || fail "$(sum launches_kernel) launches were counted"
    [ "$(sum allocations)" = "$(number used)" ] \
        || fail "$(sum allocations) allocations were counted"
    [ "$(grep '^process ' "$dir/known" | sed -E 's/.* pid=([0-9]+) .*/\1/' | sort -u | wc -l)" \
        = "$(processes)" ] \
        || fail "a process registered twice"
    with_agent --window-us 2000 -- "$storm" beside "$ptx" "$((size / 4))"
    with_agent --window-us 20000 -- "$storm" beside "$ptx" "$((size / 4))"
fi

# Also launches that the shim delays.
interrupted_launches_are_all_counted() {
    with_agent "$@" -- "$storm" signals "$ptx" "$size"
    [ "$(sum launches_kernel)" = "$(number kernels)" ] \
        && [ "$(sum launches_graph)" = "$(number graphs)" ] \
        || fail "counted $(sum launches_kernel) kernels and $(sum launches_graph) graphs of $(cat \
        "$dir/output")"
    [ "$(sum uncounted_bytes)$(sum frees_unknown)" = 00 ] \
        || fail "memory was not counted: $(cat "$dir/known")"
}
interrupted_launches_are_all_counted --window-us 0
interrupted_launches_are_all_counted --window-us 50 --rate-permille 900
interrupted_launches_are_all_counted --window-us 20000

# Copies are counted where they go.
with_agent --window-us 1000 -- "$work_calls" "$ptx"
for direction in to_device to_host on_device other; do
    [ "$(sum copies_$direction)" = "$(number copies_$direction)" ] \
        || fail "$(sum copies_$direction) copies $direction were counted, $(number \
        copies_$direction) made"
done
# Each of 4 KiB, whatever its shape.
[ "$(sum copied_on_device_bytes)" = $((4096 * $(number copies_on_device))) ] \
    || fail "$(sum copied_on_device_bytes) bytes in $(number \
    copies_on_device) copies on the device were counted"

# The shim also counts calls that the emulated driver lacks, with a window and without.
for limits in "--window-us 0" "--window-us 1000"; do
    with_agent $limits --quota-bytes $(((2 * 600 + 300) << 20)) -- \
        env LD_LIBRARY_PATH="$rare_driver" "$rare" limited found
    for name in launches_kernel copies_other copied_other_bytes allocations out_of_memory \
        frees_unknown allocations_uncounted sms_peak; do
        [ "$(sum $name)" = "$(number $name)" ] \
            || fail "rare calls: $name is $(sum $name), not $(number $name)"
    done
done

# In a process that never uses the device the shim has no thread, no descriptor and no socket, and
# the process does not register.
with_agent -- "$storm" idle "$ptx"
[ "$(processes)" = 0 ] || fail "a process without CUDA registered"
"$storm" idle "$ptx" > "$dir/plain"
diff "$dir/plain" "$dir/output" || fail "with the shim it has more"
grep -q thread "$dir/plain" || fail "no threads were seen"

# Starting a process takes at most a quarter longer with the shim; one more library alone costs the
# loader a tenth. Starts with and without alternate, and the fastest batch of each counts, because
# other work on the machine did not slow that batch down.
elapsed_us() {
    local from=${EPOCHREALTIME/./} i
    for ((i = 0; i < 20; i++)); do LD_PRELOAD="$1" /bin/true; done
    echo $((${EPOCHREALTIME/./} - from))
}
fastest() { echo $(($1 < $2 ? $1 : $2)); }
checks=$((checks + 1))
plain_us=1000000000 shimmed_us=1000000000
for ((round = 0; round < 6 || (round < 100 && 4 * shimmed_us > 5 * plain_us); round++)); do
    plain_us=$(fastest $plain_us "$(elapsed_us "$runtime")")
    shimmed_us=$(fastest $shimmed_us "$(elapsed_us "$preload")")
done
[ $((4 * shimmed_us)) -le $((5 * plain_us)) ] \
    || fail "20 starts take $shimmed_us us, without the shim $plain_us us"

echo "$checks checks, $failures failed"
[ "$failures" = 0 ]
