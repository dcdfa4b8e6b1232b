#!/bin/bash
# Protection, from the command line to the device: limits of an attempt, reports, and the remains of
# dead processes. On emulated devices.
. "$(dirname "$0")/lib.sh"
starts=${PROTECTION_STARTS:-200}
burn=$GPUMUX_BUILD/workloads/gpumux-burn
up() { start --emulate 2xH200:24g --policy firstfit "$@"; } # firstfit puts all on one device
# gpus JSON OPTION...: runs gpumux-burn unless JSON has a command
gpus() {
    json_with "$1" devices 1 command "$(json_words "$burn" --step-ms 5 --busy-percent 20 "${@:2}")"
}
# Launches in rare bursts: between bursts the shim of a task beside a service stays awake.
rarely="--step-ms 400 --busy-percent 2 --kernels-per-step 256"
usage() { field "$1" "usage.$2"; }
enforcement() { field "$1" enforcement; }

echo "-- a task over its quota is told that memory is out; its neighbour does not notice"
up
neighbour=$(submit "$(gpus '{"quota": "4g"}' --memory 2g --steps 100000)")
wait_field "$neighbour" state running
! "$gpumux" run --quota 1g -- "$burn" --step-ms 5 --memory 2g --steps 3 > "$work/out" 2>&1 \
    || fail "$(cat "$work/out")"
grep -qi 'memory' "$work/out" || fail "$(cat "$work/out")"
greedy=$(submit "$(gpus '{"quota": "1536m"}' --memory 2g --steps 3)")
ends "$greedy" failed exit
[[ $(field "$greedy" 'attempts[0].text') \
    == "ended with exit code "*"; 1 allocation was refused by its quota of 1.5 GiB" ]] \
    || fail "$(show "$greedy")"
"$gpumux" describe "$greedy" | grep -q 'refused by its quota of 1.5 GiB' \
    || fail "$("$gpumux" describe "$greedy")"
"$gpumux" run --quota 3g --share 30 -- "$burn" --step-ms 5 --memory 2g --steps 3
has "$neighbour" state running || fail "$(show "$neighbour")"

echo "-- it says what holds it"
wait_until "it says so" eval '[[ $(enforcement "$neighbour") == *enforced* ]]'
"$gpumux" describe "$neighbour" | grep -q 'quota and share are enforced, through MPS' \
    || fail "$("$gpumux" describe "$neighbour")"
cancel "$neighbour"
ends "$neighbour" cancelled

echo "-- and that nothing does, where its process has not loaded what would"
for without in "-u LD_PRELOAD" GPUMUX_DISABLE=1; do
    # shellcheck disable=SC2086
    bare=$(submit \
        "$(gpus "{\"quota\": \"4g\", \"command\": $(json_words env $without "$burn" --step-ms 5 \
        --memory 2g --steps 100000)}")")
    is_bare() {
        [[ $(enforcement "$bare") == "NOT enforced: no process of it has loaded libgpumux-cuda.so "\
"("*"; MPS still limits its clients" ]]
    }
    wait_until "it says so" is_bare
    [ "$(usage "$bare" protection)" = null ] || fail "it claims limits: $(show "$bare")"
    wait_until "an event tells of it" told \
        "device_note.*workload $bare is not held to its quota and share: no process of it"
    cancel "$bare"
    ends "$bare" cancelled
done
# Only MPS itself reports its limit.
beyond=$(submit \
    "$(gpus "{\"quota\": \"4g\", \"command\": $(json_words env -u LD_PRELOAD "$burn" --step-ms 5 \
    --memory 5g --steps 3)}")")
ends "$beyond" failed exit
output "$beyond" | grep 'out of device memory' > /dev/null || fail "$(output "$beyond")"
[[ $(field "$beyond" 'attempts[0].text') != *quota* ]] \
    || fail "it was refused by another: $(show "$beyond")"
both=$(submit "$(gpus "{\"quota\": \"5g\", \"command\": $(json_shell "
    $burn $rarely --memory 2g --steps 100000 &
    LD_PRELOAD= $burn $rarely --memory 1g --steps 100000 & wait")}")")
wait_until "it says so" eval \
    '[[ $(enforcement "$both") == "NOT enforced: one of its processes has not loaded "* ]]'
cancel "$both"
ends "$both" cancelled
[ "$(told "device_note.*is not held to its quota" | wc -l)" = 3 ] \
    || fail "told more than once: $(told device_note)"

echo "-- memory of a killed process is its workload's again; the others run on"
pair=$(submit "$(gpus "{\"quota\": \"5g\", \"command\": $(json_shell "
    $burn $rarely --memory 2g --steps 100000 & echo \$! > $work/first
    $burn $rarely --memory 1g --steps 100000 & wait")}")")
counted() { usage "$1" protection.counted_bytes; }
gib=$((1 << 30))
wait_until "both hold their memory" eval '[ "$(counted "$pair")" -ge $((3 * gib)) ]'
kill -KILL "$(cat "$work/first")"
wait_until "one gave it back" eval '[ "$(counted "$pair")" -lt $((2 * gib)) ]'
[ "$(counted "$pair")" -ge "$gib" ] || fail "$(show "$pair")"
[ "$(usage "$pair" protection.peak_bytes)" -ge $((3 * gib)) ] || fail "$(show "$pair")"

echo "-- a task sees the services beside it"
service=$(submit "$(gpus "{\"kind\": \"service\", \"quota\": \"2g\", \"command\": $(json_words \
    "$burn" --service --rate 50 --kernel-ms 1 --memory 1g)}")")
wait_field "$service" state running
device_of() { field "$1" 'devices[0]'; }
[ "$(device_of "$service")" = "$(device_of "$pair")" ] || fail "the two are not on one device"
wait_until "the task has its page" \
    eval '[ "$(usage "$pair" protection.counters.neighbours)" -ge 1 ]'

echo "-- an agent that crashes leaves all to the next one"
crash
up
has "$pair" state running || fail "$(show "$pair")"
wait_until "the account is as before" \
    eval '[ "$(counted "$pair")" -ge "$gib" ] && [ "$(counted "$pair")" -lt $((2 * gib)) ]'
"$gpumux" run --quota 1g -- "$burn" --step-ms 5 --memory 512m --steps 3
has "$service" state running || fail "$(show "$service")"
cancel "$service"
ends "$service" cancelled
# Every 1024 launches a process checks for its agent.
wait_until "its process came to the new agent" \
    eval '[ "$(usage "$pair" protection.counters.rejoins)" -ge 1 ]'
cancel "$pair"
ends "$pair" cancelled

echo "-- $starts starts at once: all register, none is over the quota of all"
stop
up --set mps=off # accepts 48 clients at most
many=$(submit "$(gpus "{\"quota\": \"20g\", \"command\": $(json_shell "for i in \$(seq $starts); do
    $burn --step-ms 1 --memory 64m --steps 2 || touch $work/refused & done; wait")}")")
ends "$many" succeeded
[ ! -e "$work/refused" ] || fail "a process was refused: $("$gpumux" logs "$many" | tail -n 3)"

echo "-- $starts for more than that: each is granted its memory and keeps it, or is refused"
: > "$work/refused"
fitting=$((starts * 5 / 8))
mib=$((1 << 20)) quota_mib=$((fitting * 64 + 32))
holding="--service --rate 0.001 --kernel-ms 1" # not launching, since so many would take turns
many=$(submit \
    "$(gpus "{\"quota\": \"${quota_mib}m\", \"command\": $(json_shell "for i in \$(seq $starts); do
    { $burn $holding --memory 64m; [ \$? != 1 ] || echo >> $work/refused; } & done; wait")}")")
# counter NAME: prints the counter, which is unknown at first.
counter() {
    usage "$many" "protection.counters.$1" 2> /dev/null | grep -E '^[0-9]+$' || echo 0
}
# Unregistered processes are in no counter.
wait_until "all have asked" \
    eval '[ $(($(counter allocations) + $(counter out_of_memory))) -ge $starts ]'
wait_until "who was refused has ended" \
    eval '[ "$(grep -c "" "$work/refused")" -ge "$(counter out_of_memory)" ]'
granted=$(counter allocations) refused=$(counter out_of_memory)
[ $((granted + refused)) = "$starts" ] || fail "$granted granted, $refused refused: $(show "$many")"
[ "$(grep -c "" "$work/refused")" = "$refused" ] \
    || fail "$(grep -c "" "$work/refused") failed, $refused were refused: $(show "$many")"
[ "$granted" -ge $((fitting / 2)) ] && [ "$granted" -le $fitting ] \
    || fail "$granted of 64 MiB by a quota of $quota_mib MiB"
[[ $(enforcement "$many") != *NOT* ]] || fail "$(enforcement "$many")"
# No process frees memory, so the present amount is the largest.
wait_until "all of it is used" \
    eval '[ "$(usage "$many" memory_used_bytes)" -ge $((granted * 64 * mib)) ]'
for held in memory_used_bytes protection.counted_bytes; do
    [ "$(usage "$many" $held)" = $((granted * 64 * mib)) ] \
        || fail "$held is not of $granted: $(show "$many")"
done
cancel "$many"
ends "$many" cancelled

echo "-- without protection, for administrators alone"
off=$(submit "$(gpus '{"quota": "1g", "protection": "off"}' --memory 2g --steps 100000)")
wait_field "$off" state running
[[ $(enforcement "$off") == *"not enforced: protection was turned off"* ]] \
    || fail "$(enforcement "$off")"
cancel "$off"
ends "$off" cancelled
stop
up --set protection=false
unheld=$(submit "$(gpus '{"quota": "1g"}' --memory 1g --steps 100000)")
waiting=$(submit "$(gpus "{\"quota\": \"1g\", \"after\": [\"$unheld\"]}" --memory 1g --steps 3)")
wait_until "it says so" eval '[[ $(enforcement "$unheld") == *"not enforced: protection is off"* ]]'
[[ $(enforcement "$waiting") == *"once the workload runs"* ]] \
    || fail "$(enforcement "$waiting")"
cancel "$waiting"
cancel "$unheld"
ends "$unheld" cancelled
[ -z "$(enforcement "$unheld")" ] || fail "of what has ended it says: $(enforcement "$unheld")"
"$gpumux" run --quota 1g -- "$burn" --step-ms 5 --memory 2g --steps 3
stop
