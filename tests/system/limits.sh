#!/bin/bash
# Limits that keep a workload waiting: its owner's allowance, and the number of CPU-only workloads
# on a node. `submit --dry-run`, the queue and `explain` name them.
. "$(dirname "$0")/lib.sh"

# exits STATUS COMMAND...: its output is left in $work/out, its errors in $work/err.
exits() {
    local got=0
    "${@:2}" > "$work/out" 2> "$work/err" || got=$?
    [ $got = "$1" ] || fail "'${*:2}' exited with $got, not $1: $(cat "$work/out" "$work/err")"
}
# waits_for ID TEXT: the queue, explain and logs print TEXT.
waits_for() {
    wait_field "$1" state queued
    [[ $(field "$1" text) = *"$2"* ]] || fail "$1 waits for '$2'? $(show "$1")"
    "$gpumux" explain "$1" | grep -qF "$2" || fail "$1 waits for '$2'? $("$gpumux" explain "$1")"
    exits 1 "$gpumux" logs "$1"
    grep -qF "it has not run yet: " "$work/err" && grep -qF "$2" "$work/err" \
        || fail "$1 waits for '$2'? $(cat "$work/err")"
}

echo "-- an allowance"
me=$(id -un)
echo "allowances: {$me: 0.5+0}" > "$work/allowances.yaml"
start --emulate 2xRTX3090 --config "$work/allowances.yaml"
half=$("$gpumux" submit -m 12g -- sleep 1000)
wait_field "$half" state running
second=$("$gpumux" submit -m 12g -- sleep 1000)
waits_for "$second" \
    "the allowance of $me is used up (devices requested: 0.5, in use: 0.5 of 0.5)"
exits 0 "$gpumux" submit --dry-run -m 12g -- true
exits 6 "$gpumux" submit --dry-run -m 13g -- true
grep -qF "would never start here: the workload exceeds the allowance of $me" "$work/out" \
    || fail "$(cat "$work/out")"
exits 0 "$gpumux" submit -- true
grep -qF "waits: the workload exceeds the allowance of $me (devices requested: 1, allowed: 0.5)" \
    "$work/err" || fail "$(cat "$work/err")"
larger=$(cat "$work/out")
waits_for "$larger" "exceeds the allowance"
cancel "$half"
wait_field "$second" state running
"$gpumux" cancel "$second" "$larger" --grace 0s > /dev/null
ends "$second" cancelled
stop

echo "-- what a workload waits for changes"
# notes_agree ID TEXT: the queue and a dry run print TEXT.
notes_agree() {
    [[ $(field "$1" text) = *"$2"* ]] && "$gpumux" submit --dry-run -- true | grep -qF "$2"
}
start --emulate 1xRTX3090
running=$("$gpumux" submit -- sleep 1000)
wait_field "$running" state running
node=$("$ask" "$GPUMUX_SOCKET" /v1/nodes 'nodes[0].name')
"$gpumux" drain "$node" > /dev/null
mapfile -t waiting < <("$gpumux" submit --array 3 -- true)
waits_for "${waiting[2]}" drained
"$gpumux" undrain "$node" > /dev/null
for id in "${waiting[@]}"; do
    wait_until "$id waits for a device in use" notes_agree "$id" "1 in use"
done
cancel "$running"
for id in "${waiting[@]}"; do ends "$id" succeeded; done
stop

echo "-- CPU-only work leaves room for GPUs"
# begun NUMBER: that many of the array have begun.
begun() {
    "$gpumux" ps --state running > "$work/out"
    [ "$(grep -c 'many\[' "$work/out")" = "$1" ]
}
start --emulate 1xT4 --set cpu_tasks_max=2
mapfile -t many < <("$gpumux" submit --array 5 -d 0 -n many -- sleep 1000)
wait_until "two run" begun 2
text="$node runs 2 CPU-only workloads, the limit (cpu_tasks_max: 2)"
waits_for "${many[2]}" "$text"
exits 0 "$gpumux" submit --dry-run -d 0 -- true
grep -qF "$text" "$work/out" || fail "$(cat "$work/out")"
long=$("$gpumux" submit --quota 1g -- sleep 1000)
wait_field "$long" state running
begun 2 || fail "more than two run: $("$gpumux" ps)"
echo "-- by default, two for each core that the agent may use; attempts_max limits GPU work, too"
"$gpumux" cancel "${many[0]}" --grace 0s > /dev/null
wait_field "${many[2]}" state running
waits_for "${many[3]}" "$text"
stop
cores=$(sed -nE 's/^Cpus_allowed_list:\t([0-9]+).*/\1/p' /proc/self/status)
run_as=(taskset -c "$cores")
start --emulate 1xT4 --set cpu_tasks_max=0
waits_for "${many[3]}" "$text"
run_as=()
stop
start --emulate 1xT4 --set attempts_max=4
task=$("$gpumux" submit --quota 1g -- true)
waits_for "${many[-1]}" "the limit (attempts_max: 4)"
waits_for "$task" "1 on full nodes (attempts_max: 4)"
"$gpumux" cancel "$long" "${many[@]:1}" --grace 0s > /dev/null
ends "$task" succeeded
stop
