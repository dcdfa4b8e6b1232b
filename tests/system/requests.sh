#!/bin/bash
# Known latencies of services when a task is placed. A service without requests has none, and
# explain reports so; others are measured alone: the task goes beside the service whose SLO leaves
# room, not beside the one that misses its SLO alone. The p99 there is a guess until both were
# measured together.
. "$(dirname "$0")/lib.sh"
burn=$GPUMUX_BUILD/workloads/gpumux-burn
metric() { api GET /metrics | awk -v name="gpumux_learnt_$1" '$1 == name { print $2 }'; }
is_known_alone() { pause 0.2; [ "$(metric programs)" = 1 ]; }
task() {
    "$gpumux" submit --name "$1" --quota 1g -- "$burn" --step-ms 100 --busy-percent 20 --sm 20 \
        --memory 64m
}
service() {
    "$gpumux" submit --kind service --name "$1" --quota 1g --slo "$2" -- \
        "$burn" --service --slip --rate 30 --kernel-ms 2 --sm 20 --memory 64m
}
# candidate ID SERVICE FILTER: the filter is true of the device of this service, in the explanation
# of the workload.
candidate() {
    pause 1
    api GET "/v1/workloads/$1/explain" > "$work/explained"
    jq -e --arg device "$(field "$2" 'devices[0]')" \
        ".candidates[] | select(.device == \$device) | $3" \
        "$work/explained" > /dev/null
}

start --emulate 2xH200:10g --set mps=off --set beat=250ms
echo "-- a task that is known alone"
first=$(task first)
wait_until "it is known" is_known_alone
"$gpumux" cancel --grace 0s "$first" > /dev/null
ends "$first" cancelled

echo "-- a service without requests: nothing is known"
silent=$("$gpumux" submit --kind service --name silent --quota 1g --slo 99:5s -- sleep 1000)
wait_field "$silent" state running
candidate "$silent" "$silent" '.here and .p99_ms == null and .slo_ms == 5000' \
    || fail "$(cat "$work/explained")"
"$gpumux" explain silent | grep -q ' unknown .*p99 unknown: too few requests measured yet' \
    || fail "$("$gpumux" explain silent)"
"$gpumux" cancel --grace 0s "$silent" > /dev/null
ends "$silent" cancelled

echo "-- two services, measured alone"
wide=$(service wide 99:5s) tight=$(service tight 99:1ms)
for id in "$wide" "$tight"; do
    wait_until "its p99 is known" candidate "$id" "$id" \
        '.p99_ms >= 2 and .p99_measured_ms >= 2 and (.p99_guess | not)'
done

echo "-- a dry run reports an SLO below the latency alone, also for a new SLO"
dry_run() {
    "$gpumux" submit --dry-run --kind service --name dry --quota 1g --slo "$1" "${@:2}" -- \
        "$burn" --service --slip --rate 30 --kernel-ms 2 --sm 20 --memory 64m
}
for slo in 99:1ms 99:500us; do
    dry_run "$slo" > "$work/out"
    grep -qE '^dry would miss its SLO: the SLO is (1|0.5) ms, and .* reached ([2-9]|[1-9][0-9])' \
        "$work/out" || fail "$(cat "$work/out")"
done
dry_run 99:500us -o json | jq -e '.workloads[0].unreachable | .slo_ms == 0.5 and .alone_ms >= 2' \
    > "$work/out" || fail "$(cat "$work/out")"
dry_run 99:4s > "$work/out"
! grep -q 'would miss' "$work/out" || fail "$(cat "$work/out")"

echo "-- a task goes where no SLO is missed"
second=$(task second)
wait_field "$second" state running
[ "$(field "$second" 'devices[0]')" = "$(field "$wide" 'devices[0]')" ] \
    || fail "$("$gpumux" explain second)"
candidate "$second" "$tight" \
    '.p99_ms > .slo_ms and .slo_ms == 1 and .reason == "a service would miss its SLO"' ||
    fail "$(cat "$work/explained")"
candidate "$second" "$wide" '.chosen and .p99_ms >= 2 and .slo_ms == 5000' \
    || fail "$(cat "$work/explained")"

echo "-- measured together"
wait_until "it is no guess any more" candidate "$second" "$wide" \
    '.p99_ms >= 2 and (.p99_guess | not)'
"$gpumux" explain second | grep -q "chosen$" || fail "$("$gpumux" explain second)"
