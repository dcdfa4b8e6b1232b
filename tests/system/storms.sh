#!/bin/bash
# Many processes of one attempt, while their agent is killed: the quota holds, the account is exact,
# and no process is lost. On emulated devices. STORM_ROUNDS: allocations of each racer;
# STORM_DEATHS: processes that are killed; STORM_LATE_PERCENT: percentage of them that may stay in
# the ledger for more than 200 ms; STORM_CHILDREN: processes that fork.
. "$(dirname "$0")/lib.sh"
deadline_s=180
rounds=${STORM_ROUNDS:-2000}
deaths=${STORM_DEATHS:-60}
late_percent=${STORM_LATE_PERCENT:-75}
children=${STORM_CHILDREN:-24}
racer=$GPUMUX_BUILD/tests/shim/shim_racer
storm=$GPUMUX_BUILD/tests/shim/shim_storm
watcher=$GPUMUX_BUILD/tests/system/ledger_watch
burn=$GPUMUX_BUILD/workloads/gpumux-burn
ptx=$GPUMUX_SOURCE/workloads/burn.ptx
mib=$((1 << 20)) quota=$((256 << 20))
up() { start --emulate 1xH200:24g --policy firstfit --set mps=off "$@"; }
task() { submit "{\"devices\": 1, \"quota\": \"256m\", \"command\": $(json_shell "$1")}"; }
usage() { field "$1" "usage.$2"; }

echo "-- without gpumux, run says what to do"
"$gpumux" run --quota 8g --share 30 -- true > "$work/out" 2>&1 && fail "it ran without gpumux"
grep -q "Start gpumux with 'gpumux up'" "$work/out" || fail "$(cat "$work/out")"

echo "-- processes race for their quota while the agent is killed; some begin while there is none"
up
race=$(task "for i in 1 2 3 4 5 6 7 8; do
        until [ -e $work/raced ]; do $racer $rounds:\$i:2 < /dev/null || echo \$?; done &
    done; wait")
wait_field "$race" state running
# The device's own figure never exceeds the quota. (The account briefly includes refused requests.)
within() {
    local bytes
    bytes=$(usage "$1" memory_used_bytes)
    [ "${bytes/null/0}" -le $quota ] || fail "$bytes bytes of $quota are held: $(show "$1")"
}
processes_of() { output "$race" | wc -l; }
for i in 1 2 3; do
    before=$(processes_of)
    for _ in 1 2 3 4 5 6 7 8; do within "$race"; done
    crash
    sleep 0.5 # some start, and wait for an agent
    up
    wait_until "they go on" eval '[ "$(processes_of)" -gt $((before + 24)) ]'
done
touch "$work/raced"
while has "$race" state running; do within "$race"; pause 0.05; done
ends "$race" succeeded
# Each process prints three times how many results were neither success nor out of memory.
[ "$("$gpumux" logs "$race" | sort -u)" = 0 ] || fail "$("$gpumux" logs "$race" | sort | uniq -c)"

echo "-- killed at any moment: the ledger is exact soon after"
# Half of the deaths are at a place in the accounting code, half by the watcher. One process lives
# on and keeps its memory.
faults=$GPUMUX_BUILD/lib/libgpumux-cuda-faults.so
victims=$(task "$burn --step-ms 5 --memory 64m --steps 1000000 & echo \$! > $work/survivor
    until [ -e $work/begin ]; do sleep 0.02; done
    for i in 1 2 3 4; do
        while [ ! -e $work/enough ]; do $racer 1000000:\$i:1 < /dev/null > /dev/null; done &
        at=\$i
        while [ ! -e $work/enough ]; do
            at=\$(((at * 37 + 11) % 400 + 1))
            env LD_PRELOAD=$faults GPUMUX_FAULT_AT=\$at $racer 200:\$i:1 < /dev/null > /dev/null
        done &
    done 2> /dev/null
    wait")
counted() { usage "$victims" protection.counted_bytes; }
wait_until "the survivor has its memory" eval '[ "$(counted)" = $((64 * mib)) ]'
touch "$work/begin"
said=$("$watcher" "$daemon_pid" "$deaths" "$(cat "$work/survivor")") || fail "$said"
echo "   $said"
late=$(sed -E 's/.* late=([0-9]+).*/\1/' <<< "$said") \
    held=$(sed -E 's/.* held=([0-9]+).*/\1/' <<< "$said")
[ "$held" -ge $((deaths / 4)) ] || fail "too few had anything: $said"
# The machine may be busy, and a sanitizer's agent is slow.
[ $((late * 100)) -le $((late_percent * deaths)) ] || fail "the agent is late: $said"
touch "$work/enough"
exact() { [ "$(counted)" = $((64 * mib)) ] \
    && [ "$(usage "$victims" memory_used_bytes)" = $((64 * mib)) ]; }
for pid in $(pgrep -f "^$racer 1000000:"); do
    kill -KILL "$pid" 2> /dev/null || true # it may already have been killed
done
wait_until "the account is the survivor's alone" exact
cancel "$victims"
ends "$victims" cancelled

echo "-- generations of processes, each of which registers before its first call"
if [ "$children" -gt 0 ]; then
    "$gpumux" run --quota 20g -- "$storm" children "$ptx" "$children" > "$work/out" 2>&1 \
        || fail "$(cat "$work/out")"
    grep -q '^used=' "$work/out" || fail "$(cat "$work/out")"
fi
"$gpumux" run --quota 20g -- "$storm" signals "$ptx" 100 > "$work/out" 2>&1 \
    || fail "$(cat "$work/out")"

echo "-- what it counts and what holds it is shown"
shown=$(submit "{\"devices\": 1, \"quota\": \"1g\", \"share\": 30, \"command\": $(json_words \
    "$burn" --step-ms 5 --memory 64m --steps 1000000)}")
wait_until "it launches" eval '[ "$(usage "$shown" protection.counters.launches_kernel)" -ge 100 ]'
"$gpumux" describe "$shown" > "$work/out"
for line in 'Limits +quota 1 GiB: the submitted quota' \
    'share 30%: the granted share, enforced by the launch rate' \
    'window 20 ms: so that neighbours survive a kill' 'gate none: no service' \
    'rate 30.0%: the share' 'lease .*: until the lease' \
    'Allocated +64 MiB \(peak' \
    'Memory +(1 allocation|[0-9]+ allocations), at most 64 MiB' \
    'Launches +[0-9]+ kernels of .* on average' \
    'GPU time +' 'Delayed +.* to keep the rate' 'Rate +average deviation'; do
    grep -qE "$line" "$work/out" || fail "'$line' is not in: $(cat "$work/out")"
done
api GET /metrics > "$work/metrics"
for sample in \
    'gpumux_workload_limit\{.*limit="window_us",reason="so that neighbours survive.*"\} 20000' \
    'gpumux_workload_limit\{.*limit="rate_permille".*\} 300' 'gpumux_workload_overhead_bytes\{' \
    'gpumux_workload_counter_total\{.*counter="held_rate_ns"\}' \
    'gpumux_workload_counter_total\{.*counter="rate_error_permille"\}' \
    'gpumux_workload_counter_total\{.*counter="gpu_time_kernel_ns"\}'; do
    grep -qE "^$sample" "$work/metrics" \
        || fail "'$sample' is not in: $(grep workload "$work/metrics")"
done
cancel "$shown"
ends "$shown" cancelled
stop
