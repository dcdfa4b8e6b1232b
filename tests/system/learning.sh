#!/bin/bash
# Learning in a running gpumux. Two programs seem to leave the same room for neighbours, but one of
# them slows its neighbours far more. A task that was measured beside both is placed beside the
# better one, also after the daemon was killed; a model that was damaged meanwhile is refused.
# Devices are shared in turns here, so the busy time of a neighbour counts, and not its number of
# SMs.
. "$(dirname "$0")/lib.sh"
burn=$GPUMUX_BUILD/workloads/gpumux-burn
up() { start --emulate 3xH200:10g --set mps=off --set beat=250ms; }

# run NAME QUOTA WORDS...: trains until it is cancelled.
run() { "$gpumux" submit --name "$1" --quota "$2" -- "$burn" --step-ms 40 --memory 64m "${@:3}"; }
learner() { run "$1" 6g --sm 40 --busy-percent 100; } # too large for two on a device
end_all() {
    "$gpumux" cancel --grace 0s "$@" > /dev/null
    "$gpumux" wait --timeout 60s "$@" > /dev/null || true
}
device_of() { field "$1" 'devices[0]'; }

metric() { api GET /metrics | awk -v name="gpumux_learnt_$1" '$1 == name { print $2 }'; }
# measurements arrive slowly, and a check is expensive
are() { pause 0.5; [ "$(metric "$1")" -ge "$2" ]; }
# is_kept: every measurement is in the file, whose header has the number of measurements.
is_kept() {
    [ "$(od -An -tu8 -j32 -N8 "$state/learnt/measurements")" -eq "$(metric measurements_total)" ]
}

# knows ID: the task is known to be slower beside the one than beside the other.
knows() {
    api GET "/v1/workloads/$1/explain" \
        | jq -e \
        "[.candidates[] | {(.device): .pd}] | add | .\"$bad\" > .\"$good\" and .\"$good\" > 0"
}
is_told() { pause 0.2; "$gpumux" explain "$1" | grep 'the workload takes .* was predicted'; }
is_decided() { pause 0.1; [[ $(field "$1" state,text) =~ ^running|$'\n'"devices have room" ]]; }
# goes_well NAME: a new task is placed beside the better neighbour. Its id is in $task.
goes_well() {
    task=$(learner "$1")
    wait_until "$1 is placed, or refused for a reason" is_decided "$task"
    [ "$(device_of "$task")" = "$good" ]
}

up
[ "$(api GET /v1/version policy)" = gpumux ] || fail "gpumux is not the default"
echo "-- alone"
rude=$(run rude 1g --sm 41 --busy-percent 100) polite=$(run polite 1g --sm 100 --busy-percent 10) \
    first=$(learner first)
wait_until "all three are known alone" are programs 3
bad=$(device_of "$rude") good=$(device_of "$polite")
end_all "$first"
blocker=$("$gpumux" submit --name blocker -- sleep 1000)
wait_field "$blocker" state running

# A machine that is too busy for measurements gets more chances.
for round in 1 2 3 4; do
    echo "-- beside both, round $round"
    second=$(learner second) third=$(learner third)
    wait_until "they were measured" are measurements_total $((12 * round))
    wait_until "what was predicted is shown beside what is measured" is_told "$second"
    end_all "$second" "$third"
    ! goes_well fourth || break
    [ $round != 4 ] || fail "it is not beside the better neighbour: $("$gpumux" explain "$task")"
    end_all "$task"
done

echo "-- killed"
end_all "$task"
wait_until "what was learnt is kept" is_kept
count=$(metric measurements_total)
crash
echo nonsense > "$state/learnt/model"
up
[ "$(metric measurements_total)" = "$count" ] \
    || fail "$count measurements before, $(metric measurements_total) after"
[ "$(metric programs)" = 3 ] || fail "$(metric programs) programs are known"
grep -q 'learning file discarded file=learnt/model' "$log" \
    || fail "a model of nonsense was not refused"
goes_well fifth || fail "it is not beside the better neighbour: $("$gpumux" explain "$task")"
wait_until "it still knows" knows "$task"
