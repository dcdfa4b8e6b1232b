#!/bin/bash
# Every policy on a live daemon: tasks that share devices, a service, and one of two devices come to their end, and
# `explain` has something to say of each that runs or waits. One store for all of them: what one policy left waiting,
# the next one starts.
. "$(dirname "$0")/lib.sh"

policies=$("$gpumux" up --state "$state" --emulate 2xT4 --policy nonsense 2>&1 | sed 's/.*there are: //') || true
[ "$(wc -w <<< "$policies")" -ge 12 ] || fail "which policies are there? $policies"

for policy in ${policies//,/}; do
    echo "-- $policy"
    start --emulate 2xT4 --policy "$policy"
    service=$("$gpumux" submit --kind service --quota 1g --name "$policy-service" -- sleep 1000)
    both=$("$gpumux" submit --devices 2 --quota 1g --name "$policy-both" -- true)
    mapfile -t ids < <("$gpumux" submit --array 4 --quota 1g --name "$policy-tasks" -- sleep 0.2)
    wait_field "$service" state running
    "$gpumux" explain "$service" > "$work/explained" || fail "explain failed"
    grep -q "by policy $policy" "$work/explained" || fail "another policy: $(cat "$work/explained")"
    grep -q 'it runs here' "$work/explained" || fail "where does it run? $(cat "$work/explained")"
    case $policy in # the service has one of the two devices for itself, and the others need both
    exclusive) why='it is in use' ;;
    kernelest) why='its SMs would be wanted' ;;
    *) why= ;;
    esac
    if [ "$why" ]; then
        "$gpumux" explain "$both" | grep -q "$why" || fail "why does it wait? $("$gpumux" explain "$both")"
        "$gpumux" cancel "$service" --grace 0s > /dev/null
    fi
    "$gpumux" wait "$both" "${ids[@]}" --timeout 60s > "$work/waited" || fail "$(cat "$work/waited"; "$gpumux" ps)"
    "$gpumux" cancel "$service" --grace 0s > /dev/null 2>&1 || true
    stop
done
