#!/bin/bash
# A device shared by services and tasks, without live control: the mode, the shares, and the effect
# of latencies that a service reports. On emulated devices.
. "$(dirname "$0")/lib.sh"
burn=$GPUMUX_BUILD/workloads/gpumux-burn
up() {
    start --emulate 1xH200:24g --policy firstfit --set live_control=false --set mode_kept=2s \
        --set monitor_calm=500ms --set monitor_hold_min=500ms --set monitor_outside=10m "$@"
}
# service RATE KERNEL_MS, task OPTION...: print ids
service() {
    submit "{\"kind\": \"service\", \"devices\": 1, \"quota\": \"2g\", \"command\": $(json_words \
        "$burn" --service --rate "$1" --kernel-ms "$2" --sm 40 --slip)}"
}
task() {
    submit "{\"devices\": 1, \"quota\": \"2g\", \"command\": $(json_words "$burn" --steps 1000000 \
        --sm 60 "$@")}"
}
mode_is() { has "$1" usage.protection.mode "$2"; }
limit() { field "$1" "usage.protection.limits[name=$2].value"; }
limit_is() { [ "$(limit "$1" "$2")" = "$3" ]; }
# rate_below ID PERMILLE: the rate limit is set, and less than this
rate_below() {
    local rate
    rate=$(limit "$1" rate_permille)
    [ "$rate" != null ] && [ "$rate" -gt 0 ] && [ "$rate" -lt "$2" ]
}
metric() { api GET /metrics | sed -n "s/^$1{.*workload=\"$2\".*} //p"; }
# Prints the share that a new task gets from the driver; nothing: the whole device.
share_now() { "$gpumux" run --quota 1g -- env | sed -n 's/^CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=//p'; }

echo "-- a service that says how long it takes"
up --set share_in_time=true
little=$(service 50 1)
wait_field "$little" state running
answers() {
    field "$little" usage.latency_ms,usage.requests_10s | paste - - \
        | awk '{ exit !($1 + 0 >= 0.9 && $2 + 0 > 50) }'
}
wait_until "its latency is known" answers
"$gpumux" describe "$little" | grep -q ', p99 latency [0-9.]* ms' \
    || fail "$("$gpumux" describe "$little")"
[ -n "$(metric gpumux_service_latency_seconds "$little")" ] || fail "no metric of its latency"

echo "-- SMs for it from tasks that wait for it as well: only where that was asked for"
[ "$(share_now)" = 90 ] || fail "a share of $(share_now)"
crash
up
[ -z "$(share_now)" ] || fail "a share of $(share_now)"

echo "-- beside a service that has little to do: all of the SMs, in time"
first=$(task --step-ms 5)
wait_until "it waits for the service" mode_is "$first" time
[ "$(limit "$first" gate_us)" -gt 0 ] || fail "no gate: $(show "$first")"
limit_is "$first" share_percent 100 || fail "$(show "$first")"
limit_is "$first" rate_permille 0 || fail "held by its rate: $(show "$first")"
"$gpumux" describe "$first" > "$work/out"
grep -q ' share 100%: all SMs allowed' "$work/out" || fail "$(cat "$work/out")"
grep -q ' gate 20 ms: a service shares the device' "$work/out" || fail "$(cat "$work/out")"
api GET /metrics > "$work/out"
grep -q "^gpumux_workload_limit{.*workload=\"$first\",limit=\"share_percent\",.*} 100\$" \
    "$work/out" || fail "$(grep workload_limit "$work/out")"

echo "-- one whose kernels are too long to wait for: in space at once"
coarse=$(task --step-ms 200 --kernels-per-step 1)
wait_until "it is in space" mode_is "$coarse" space
limit_is "$coarse" gate_us 0 || fail "$(show "$coarse")"
mode_is "$first" time || fail "the other is too: $(show "$first")"
cancel "$coarse"
ends "$coarse" cancelled

echo "-- a task whose kernel outlasts its drain, also at its own exit: MPS ends its work alone"
ends_of_work() { grep -c "Cmd:terminate_client" "$state"/node/mps/*/control.log || true; }
lasting() {
    submit "{\"devices\": 1, \"quota\": \"2g\", \"command\": $(json_words env \
        "GPUMUX_BUILD=$GPUMUX_BUILD" "$GPUMUX_BUILD/tests/shim/shim_exit_program" "$1" 1 60000000)}"
}
attempts() { field "$little" attempt; field "$first" attempt; }
neighbours_run() { has "$little" state running && has "$first" state running; }
end_lasting() { # end_lasting HOW: by a signal (wait), or by itself (exit)
    coarse=$(lasting "$1")
    if [ "$1" = wait ]; then
        wait_until "it has launched" eval 'output "$coarse" | grep ready'
        cancel "$coarse"
        ends "$coarse" cancelled
        has "$coarse" 'attempts[0].signal' 15 || fail "$(show "$coarse")"
    else
        ends "$coarse" failed exit
        has "$coarse" exit_code 7 || fail "$(show "$coarse")"
    fi
}
# The end waits for 1.5 s of wall-clock time. On a machine that stalls for as long, the agent is too
# late and neighbours are harmed, but not three times in a row.
is_ended_by_mps() { # is_ended_by_mps HOW
    local before there
    for _ in 1 2 3; do
        before=$(ends_of_work) there=$(attempts)
        end_lasting "$1"
        if [ "$(ends_of_work)" -gt "$before" ]; then
            neighbours_run && [ "$(attempts)" = "$there" ] \
                || fail "its neighbours: $(show "$little") $(show "$first")"
            return
        fi
        echo "MPS came too late"
        wait_until "the others run again" neighbours_run
    done
    fail "it ended with its work outstanding"
}
is_ended_by_mps wait
is_ended_by_mps exit

echo "-- beside one that is busy: in space, and what began with more is held to what is left"
cancel "$little"
ends "$little" cancelled
cancel "$first"
ends "$first" cancelled
early=$(task --step-ms 5)
wait_until "it is alone" mode_is "$early" alone
busy=$(service 40 20)
wait_field "$busy" state running
wait_until "the mode is told" told "device_note.*mode space beside service $busy: it was busy"
wait_until "it is in space" mode_is "$early" space
limit_is "$early" gate_us 0 || fail "$(show "$early")"
limit_is "$early" share_percent 100 || fail "$(show "$early")"
wait_until "it is held by its rate" rate_below "$early" 950
now=$(share_now)
[ "$now" -lt 90 ] || fail "a share of $now"

echo "-- an agent that crashes leaves what it has learned to the next one"
crash
up --set mode_kept=10m
late=$(task --step-ms 5)
wait_until "its limits are known" mode_is "$late" space
now=$(limit "$late" share_percent)
[ "$now" -lt 45 ] || fail "a share of $now, and another task has as much"
[[ $(field "$late" enforcement) == *", and 2 tasks share the rest"* ]] \
    || fail "$(field "$late" enforcement)"
limit_is "$late" rate_permille 0 || fail "held by its rate: $(show "$late")"
[[ $(field "$late" enforcement) == *"$now % of the SMs, for service $busy"* ]] \
    || fail "$(field "$late" enforcement)"
"$gpumux" describe "$late" > "$work/out"
grep -q " share $now%: service $busy beside it used up to" "$work/out" || fail "$(cat "$work/out")"
for id in "$early" "$late"; do cancel "$id"; done
for id in "$early" "$late"; do ends "$id" cancelled; done
cancel "$busy"
ends "$busy" cancelled

echo "-- a task that can resume starts again when its share is off for long"
stop
up --set share_kept=1s
does=$(json_words "$burn" --steps 1000000 --sm 60 --step-ms 5)
again=$(submit "{\"devices\": 1, \"quota\": \"2g\", \"command\": $does, \"resume\": $does}")
stays=$(task --step-ms 5)
for id in "$again" "$stays"; do wait_field "$id" state running; done
busy=$(service 40 20)
restarted() {
    [[ $(field "$again" 'attempts[0].text') \
        == "restarted: it has 100 % of the SMs, and would get "* ]]
}
wait_until "it is started again" restarted
wait_until "with less" eval \
    '[ "$(field "$again" attempt)" -ge 2 ] && [ "$(limit "$again" share_percent)" -le 80 ]'
has "$again" failures 0 || fail "that was counted: $(show "$again")"
has "$stays" attempt 1 || fail "the work of one that cannot is lost: $(show "$stays")"
for id in "$again" "$stays" "$busy"; do cancel "$id"; done
for id in "$again" "$stays" "$busy"; do ends "$id" cancelled; done

echo "-- so does a task whose kernels are too long, beside a service in mode time; also next time"
stop
up --set share_kept=1s --set mode_kept=10m
half=$(submit \
    "{\"kind\": \"service\", \"devices\": 1, \"quota\": \"2g\", \"command\": $(json_words "$burn" \
    --service --rate 20 --kernel-ms 20 --sm 90 --slip)}")
wait_field "$half" state running
does=$(json_words "$burn" --steps 1000000 --sm 60 --step-ms 200 --kernels-per-step 1)
again=$(submit "{\"devices\": 1, \"quota\": \"2g\", \"command\": $does, \"resume\": $does}")
beside=$(task --step-ms 5)
wait_until "it is started again" restarted
# The shares affect the service's load, and the load affects the shares.
wait_until "its limits are known" eval \
    '[ "$(field "$again" attempt)" -ge 2 ] && [ "$(limit "$again" share_percent)" != null ]'
[ "$(limit "$again" share_percent)" -le 80 ] || fail "it got all SMs again: $(show "$again")"
mode_is "$beside" time || fail "the other is in space, too: $(show "$beside")"
for id in "$again" "$beside"; do cancel "$id"; done
for id in "$again" "$beside"; do ends "$id" cancelled; done

echo "-- and one that nothing holds"
does=$(json_shell "echo share=\$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE
    exec env -u LD_PRELOAD $burn --steps 1000000 --sm 30 --step-ms 5 --memory 64m")
loose=$(submit "{\"devices\": 1, \"quota\": \"2g\", \"command\": $does, \"resume\": $does}")
wait_until "it has less" eval 'output "$loose" | grep " share=[1-8][0-9]$"'
for id in "$loose" "$half"; do cancel "$id"; done
for id in "$loose" "$half"; do ends "$id" cancelled; done

echo "-- a service near its SLO: the task beside it is throttled"
echo 10000 > "$work/latency"
slow=$(submit "{\"kind\": \"service\", \"devices\": 1, \"quota\": \"2g\",
    \"slo\": {\"percentile\": 99, \"latency\": \"50ms\"}, \"command\": $(json_words \
    "$GPUMUX_BUILD/tests/system/client_program" answer "$work/latency")}")
wait_field "$slow" state running
first=$(task --step-ms 5)
wait_field "$first" state running
wait_until "its latency is known" eval '[ "$(field "$slow" usage.requests_10s)" -gt 100 ]'
"$gpumux" describe "$slow" > "$work/out"
grep -q '^SLO  *p99 below 50 ms$' "$work/out" || fail "$(cat "$work/out")"
echo 48000 > "$work/latency"
wait_until "the device is unhealthy" told \
    "device_state.*unhealthy: service $slow: p99 of 4[0-9.]* ms over 5 s, its SLO is 50.0 ms"
wait_until "the task is throttled" rate_below "$first" 501
echo 10000 > "$work/latency"
wait_until "it is not any more" limit_is "$first" rate_permille 0
evicted() { field "$first" 'attempts[].text' | grep ^evicted; }
evicted && fail "it was ended: $(show "$first")"

echo "-- a service that misses it: the task is evicted, and queued again"
echo 200000 > "$work/latency"
wait_until "it is evicted" evicted
[[ $(evicted) == *"evicted: service $slow: p99 of "* ]] || fail "another reason: $(evicted)"
has "$first" failures 0 || fail "that was counted: $(show "$first")"
has "$slow" state running || fail "$(show "$slow")"
stop
