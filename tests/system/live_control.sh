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
# with_gate ID: neither "no gate" nor a pause, not for a trial only
with_gate() { control "$1" '(.setting | startswith("gate")) and (.is_trial | not)'; }
counter() { field "$1" "usage.protection.counters.$2"; }
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
# The setting may change between two looks.
shown() {
    "$gpumux" slo > "$work/out" || [ $? = 1 ]
    grep -qE " p90 35 ms .* gate" "$work/out"
}
wait_until "the table shows the gate" shown
described() { "$gpumux" describe "$tight" | grep -q '^In time  *1 min '; }
wait_until "the attainment is described" described
counted() {
    api GET /metrics \
        | grep -q "^gpumux_service_setting{.*workload=\"$tight\",setting=\"gate"
}
wait_until "a metric shows the gate" counted

echo "-- an agent that crashes: the next agent knows the service and its setting"
is_known() { control "$1" '.setting != null and (.why | contains("no tasks") | not)'; }
# An agent that knows neither first measures the service while it holds the tasks.
measurements() {
    "$gpumux" events --since 0 | grep -c "measuring the service with tasks held" || true
}
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
runs_freely() { # in one second
    local waits launches
    waits=$(counter "$task" waits_gate) launches=$(counter "$task" launches_kernel)
    pause 1
    [ "$(counter "$task" waits_gate)" = "$waits" ] \
        && [ "$(counter "$task" launches_kernel)" -gt $((launches + 100)) ]
}
sleeps() { [ "$(counter "$task" sleeps_gate)" -gt 0 ]; }
has_gate() { control "$idle" '.setting | startswith("gate")'; }
is_calm() { has_gate && sleeps && runs_freely && has_gate; }
wait_until "the task's launches do not wait, with a gate" is_calm
end "$idle"

echo "-- a service that its host bounds, with a loose target: no gate, and the task never waits"
host=$(service 200ms --kernel-ms 1 --sm 10 --kernels-per-request 5 --gap-ms 4)
wait_field "$host" state running
keeps_slo_freely() {
    control "$host" '.setting == "no gate" and (.is_trial | not)
        and .answered_1m > 50 and .late_1m <= .allowed_fraction * .answered_1m'
}
waits() { echo "$(counter "$task" held_gate_ns) $(counter "$task" waits_gate)"; }
is_free() { # for a second, in which the task works
    local before launches
    keeps_slo_freely || return 1
    before=$(waits) launches=$(counter "$task" launches_kernel)
    pause 1
    [ "$(waits)" = "$before" ] && [ "$(counter "$task" launches_kernel)" -gt "$launches" ] \
        && keeps_slo_freely
}
wait_until "the task works without a wait" is_free
