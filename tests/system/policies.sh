#!/bin/bash
# Policies that judge by a forecast, on a live daemon: tasks that share devices, a service, and a
# task of two devices end, and `explain` explains running and waiting workloads. The other policies
# differ only in their judgement: src/policy/place_test.c tests all of them.
. "$(dirname "$0")/lib.sh"

# says ID TEXT: explain prints TEXT.
says() { "$gpumux" explain "$1" | grep -q "$2"; }
has_begun() { ! has "$1" state queued; }

for policy in gpumux iadeep kernelest; do
    echo "-- $policy"
    start --emulate 2xT4 --policy "$policy"
    service=$("$gpumux" submit --kind service --quota 1g --name "$policy-service" -- sleep 1000)
    both=$("$gpumux" submit --devices 2 --quota 1g --name "$policy-both" -- true)
    mapfile -t ids < <("$gpumux" submit --array 4 --quota 1g --name "$policy-tasks" -- sleep 0.2)
    wait_field "$service" state running
    "$gpumux" explain "$service" > "$work/explained" || fail "explain failed"
    grep -q "by policy $policy" "$work/explained" || fail "another policy: $(cat "$work/explained")"
    grep -q 'runs here' "$work/explained" || fail "where does it run? $(cat "$work/explained")"
    # the service has one of the two devices to itself, and the large task needs both
    if [ "$policy" = kernelest ]; then
        wait_until "explain says why" says "$both" 'would need more SMs than the device has'
        "$gpumux" cancel "$service" --grace 0s > /dev/null
    fi
    "$gpumux" wait "$both" "${ids[@]}" --timeout 60s > "$work/waited" \
        || fail "$(cat "$work/waited"; "$gpumux" ps)"
    "$gpumux" cancel "$service" --grace 0s > /dev/null 2>&1 || true
    stop
done

echo "-- one that needs both devices is not passed over for ever"
start --emulate 2xT4 --set ageing=1s
first=$("$gpumux" submit -- sleep 0.5) # so that the devices become free at different times
wait_until "the first begins" has_begun "$first"
"$gpumux" submit --array 200 --priority -1000 --name crowd -- sleep 0.3 > "$work/crowd"
wait_until "the crowd begins" has_begun "$(head -n 1 "$work/crowd")"
both=$("$gpumux" submit --devices 2 --priority 1000 --name both -- true)
"$gpumux" wait "$both" --timeout 60s > "$work/waited" \
    || fail "$(cat "$work/waited"; "$gpumux" describe "$both")"
"$gpumux" ps --state queued > "$work/queued"
grep -q crowd "$work/queued" || fail "it came last: $("$gpumux" ps)"
stop
