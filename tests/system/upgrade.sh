#!/bin/bash
# An agent takes over from one of version 0.1: attempts run on under their terms. On emulated
# devices.
. "$(dirname "$0")/lib.sh"
burn=$GPUMUX_BUILD/workloads/gpumux-burn
up() { start --emulate 1xH200:24g --policy firstfit --set monitor_hold_min=1s "$@"; }
# task QUOTA [JSON]
task() {
    submit "$(json_with "${2:-"{}"}" devices 1 quota "\"$1\"" command \
        "$(json_words "$burn" --step-ms 20 --memory 1g --steps 10000000)")"
}
samples() { output "$1" | grep -o 'samples=[0-9]*' | tail -n 1 | cut -d= -f2; }
ran_past() { [ "$(samples "$1")" -gt "$2" ]; }

# as_before ID DEVICES QUOTA_BYTES GRACE_MS: replaces its record by the files of version 0.1, word
# for word. The supervisor has already read those that it needs at its start.
as_before() {
    local name=$1.1 old=$state/node
    mkdir -p -m 700 "$old/terms"
    if [ -n "$2" ]; then
        printf '%s\n' '{"kind":"task","devices":['"$2"'],"quota_bytes":'"$3"',"share_min":0,'\
'"share_max":100,"protected":true,"unprotected":"","suspect":false,"mps":false,'\
'"without_mps":"MPS is off on this node","suspendable":true,"resumable":false,"share":0,'\
'"share_why":"","slo_percentile":0,"slo_latency_ms":0}' > "$old/terms/$name"
    fi
    printf '%s\n' '{"workload":'"$1"',"attempt":1,"service":false,"command":["sh"],'\
'"environment":["GPUMUX_ATTEMPT=1"],"directory":"/","grace_ms":'"$4"',"time_limit_ms":0,'\
'"fence_ms":30000,"drain_ms":30000,"begin_by_ms":2590446,"log_file_bytes":67108864,'\
'"log_files":4,"ready":"started","ready_command":[],"ready_port":0,"stdin":false,'\
'"slo_percentile":0.0}' > "$old/attempts/$name/grant.json"
    rm "$old/records/$name" "$old/records/$name.grant"
}

up --set mps=off
rests=$(task 20g)
wait_field "$rests" state running
wait_until "it trains" ran_past "$rests" 5
"$gpumux" suspend "$rests"
has "$rests" state suspended || fail "$(show "$rests")"
stood=$(samples "$rests")
runs=$(task 4g)
plain=$(submit "{\"command\": $(json_shell 'exec sleep 1000')}")
leaves=$(submit \
    "{\"devices\": 1, \"quota\": \"4g\", \"grace\": \"60s\", \"command\": $(json_shell \
    "trap '' TERM; while :; do sleep 0.1; done")}")
for id in "$runs" "$plain" "$leaves"; do wait_field "$id" state running; done
wait_until "it is saved that it runs" test -e "$state/node/records/$leaves.1"
is_protected() { enforced=$(field "$runs" enforcement) && [[ $enforced == quota* ]]; }
wait_until "its node says that it is protected" is_protected

echo "-- the next agent goes on from what the old one left"
crash
moved=$(jq -r '.moved[0] | "\(.pid) \(.start)"' "$state/node/records/$rests.1")
uuid=$(jq .terms.devices[0] <(head -n 1 "$state/node/records/$rests.1.grant"))
as_before "$rests" "$uuid" $((20 << 30)) 10000
as_before "$runs" "$uuid" $((4 << 30)) 315360000000 # forged: ten years
as_before "$plain" "" 0 10000
as_before "$leaves" "$uuid" $((4 << 30)) 60000
printf '{"turn":1,"off":true,"done":true,"bytes":1073741824,"processes":[[%s]]}' "${moved/ /,}" \
    > "$state/node/suspended/$rests.1"
echo 'moved evicted: its device is full' > "$state/node/terms/$leaves.1.verdict"
touch -d "59 seconds ago" "$state/node/terms/$leaves.1.verdict"
up --set mps=off
[ -z "$(ls "$state/node/terms")" ] || fail "left over: $(ls "$state/node/terms")"
for id in "$rests" "$runs"; do
    [ -s "$state/node/records/$id.1.grant" ] || fail "workload $id has no record"
done
grace=$(head -n 1 "$state/node/records/$runs.1.grant" | jq .grace_ms)
[ "$grace" = 10000 ] || fail "its grace is $grace ms"

echo "-- what was leaving leaves when its grace is over, and is not blamed"
wait_until "it has started again" eval '[ "$(field "$leaves" attempt)" -ge 2 ]'
has "$leaves" failures 0 || fail "$(show "$leaves")"
told 'exited.*evicted: its device is full' "$leaves" || fail "$(show "$leaves")"
cancel "$leaves"

echo "-- what ran runs on, on its terms"
for id in "$runs" "$plain"; do has "$id" state,attempt $'running\n1' || fail "$(show "$id")"; done
wait_until "its terms are as they were" eval '[ "$(field "$runs" enforcement)" = "$enforced" ]'
cancel "$runs"
ends "$runs" cancelled

echo "-- what was suspended comes back"
has "$rests" state,attempt $'suspended\n1' || fail "$(show "$rests")"
"$gpumux" resume "$rests"
wait_field "$rests" state running
wait_until "it goes on" ran_past "$rests" $((stood + 50))
has "$rests" attempt 1 || fail "$(show "$rests")"
stop
