#!/bin/bash
# Live control of tasks beside services, on an emulated device without MPS: the gate appears only if
# the service needs a gate, an idle service costs tasks nothing, and an agent that crashed leaves
# its settings to the next agent. Kernels last milliseconds, so that the host's noise is small.
. "$(dirname "$0")/lib.sh"
burn=$GPUMUX_BUILD/workloads/gpumux-burn
kernels=$work/kernels.csv
{
    echo workload,duration_us,block_us,sm_permille,dram_permille
    for _ in {1..20}; do echo task,1000,0,1000,100; done
} > "$kernels"
# The gate may wait for longer than a request lasts.
up() { start --emulate 1xH200:24g --policy firstfit --set mps=off --set gate_us_max=200000; }
# service SLO OPTION...: prints the id of a service that answers one request at a time
service() {
    submit "{\"kind\": \"service\", \"devices\": 1, \"quota\": \"2g\",
        \"slo\": {\"percentile\": 90, \"latency\": \"$1\"}, \"command\": $(json_words "$burn" \
        --service --one-by-one --slip --rate 20 "${@:2}")}"
}
# control ID FILTER: the filter is true of the service's controller
control() {
    { "$gpumux" slo "$1" -o json || test $? = 1; } > "$work/slo"
    jq -e ".services[0].control | $2" "$work/slo"
}
setting() { field "$1" usage.control.setting; }
# with_gate ID: neither "no gate" nor a pause, not for a trial only
with_gate() { control "$1" '(.setting | startswith("gate")) and (.is_trial | not)'; }
counter() { field "$1" "usage.protection.counters.$2"; }
speed() { field "$1" usage.samples_per_s; }
end() { cancel "$1"; ends "$1" cancelled; }

echo "-- a service that fills the device, with a tight target: a gate, and the SLO is kept"
up
task=$(submit "{\"devices\": 1, \"quota\": \"2g\", \"command\": $(json_words "$burn" \
    --steps 1000000 --kernel-list "$kernels" --model task)}")
wait_field "$task" state running
tight=$(service 35ms --kernel-ms 20 --sm 100)
wait_field "$tight" state running
keeps_slo() { control "$1" '.answered_1m > 200 and .late_1m <= .allowed_fraction * .answered_1m'; }
settled() { with_gate "$tight" && keeps_slo "$tight"; }
wait_until "the SLO is kept with a gate" settled
"$gpumux" slo > "$work/out"
grep -qE " p90 35 ms .* gate" "$work/out" || fail "$(cat "$work/out")"
"$gpumux" describe "$tight" | grep -q '^In time  *1 min ' || fail "$("$gpumux" describe "$tight")"
api GET /metrics | grep -q "^gpumux_service_setting{.*workload=\"$tight\",setting=\"gate" \
    || fail "no metric of the setting"

echo "-- an agent that crashes: the next agent knows the service and its setting"
is_known() { control "$1" '.setting != null and (.why | contains("no tasks") | not)'; }
# An agent that knows neither first measures the service while it holds the tasks.
measurements() { "$gpumux" events --since 0 | grep -c "measuring the service with tasks held" || true; }
before=$(measurements)
[ "$before" -gt 0 ] || fail "the first agent has not measured the service"
crash
up
wait_until "the next agent has a setting" is_known "$tight"
wait_until "the setting is a gate" with_gate "$tight"
[ "$(measurements)" = "$before" ] || fail "measured again: $("$gpumux" events --since 0)"
end "$tight"

echo "-- a service without requests: the gate's thread sleeps, and launches do not wait"
idle=$(service 35ms --kernel-ms 20 --sm 100 --requests 40 --then-idle)
# Requests are not counted until the process has its pages.
wait_until "the requests are answered" control "$idle" '.answered >= 35'
asleep=$(counter "$task" sleeps_gate)
runs_freely() { # in one second
    local waits launches
    waits=$(counter "$task" waits_gate) launches=$(counter "$task" launches_kernel)
    pause 1
    [ "$(counter "$task" waits_gate)" = "$waits" ] \
        && [ "$(counter "$task" launches_kernel)" -gt $((launches + 100)) ]
}
wait_until "the task's launches do not wait" runs_freely
control "$idle" '.setting | startswith("gate")' > "$work/out" || fail "no gate: $(cat "$work/slo")"
[ "$(counter "$task" sleeps_gate)" -gt 0 ] || fail "no sleep, $asleep before: $(show "$task")"
end "$idle"

echo "-- a service that its host bounds, with a loose target: no gate, and the task is fast"
is_alone() { has "$task" usage.protection.mode alone; }
wait_until "the task is alone" is_alone
alone=0
is_steady() { # the speed is a mean over seconds
    local before=$alone
    pause 1
    alone=$(speed "$task")
    awk -v now="$alone" -v before="$before" \
        'BEGIN { exit !(now > 0 && now < 1.03 * before && before < 1.03 * now) }'
}
wait_until "the speed alone is known" is_steady
host=$(service 200ms --kernel-ms 1 --sm 10 --kernels-per-request 5 --gap-ms 4)
wait_field "$host" state running
is_fast() {
    control "$host" '.setting == "no gate" and (.is_trial | not)
        and .answered_1m > 50 and .late_1m <= .allowed_fraction * .answered_1m' \
        && awk -v now="$(speed "$task")" -v alone="$alone" 'BEGIN { exit !(now >= 0.9 * alone) }'
}
wait_until "the task has 0.9 of its speed alone" is_fast
