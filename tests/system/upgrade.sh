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

# as_before ID: restores its record in the files of version 0.1. The supervisor has already read
# those that it needs at its start.
as_before() {
    local name=$1.1 record=$state/node/records/$1.1 old=$state/node
    mkdir -p -m 700 "$old/terms"
    head -n 1 "$record.grant" | jq -c .terms > "$old/terms/$name"
    sed -n 2p "$record.grant" > "$old/attempts/$name/grant.json"
    jq -r 'select(.verdict != "own") | "\(.verdict) \(.why)"' "$record" > "$old/terms/$name.verdict"
    [ -s "$old/terms/$name.verdict" ] || rm "$old/terms/$name.verdict"
    jq -c 'select(.report.suspension // "none" != "none")
        | {turn: .report.turn, off: .wants_off, done: (.place == "host"),
        bytes: .moved_bytes, processes: [.moved[] | [.pid, .start]]}' \
        "$record" > "$old/suspended/$name"
    [ -s "$old/suspended/$name" ] || rm "$old/suspended/$name"
    rm "$record" "$record.grant"
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
for id in "$rests" "$runs" "$plain" "$leaves"; do as_before "$id"; done
echo 'moved evicted: its device is full' > "$state/node/terms/$leaves.1.verdict"
touch -d "59 seconds ago" "$state/node/terms/$leaves.1.verdict"
up --set mps=off
[ -z "$(ls "$state/node/terms")" ] || fail "left over: $(ls "$state/node/terms")"
for id in "$rests" "$runs"; do
    [ -s "$state/node/records/$id.1.grant" ] || fail "workload $id has no record"
done

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
