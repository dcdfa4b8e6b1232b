#!/bin/bash
# A workload that keeps rewriting all files that its user can write, while agents are restarted: it
# cannot escape an eviction, its quota or its kind, and no other process is harmed. On an emulated
# device.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root, to run a workload as another user"
stage_build
burn=$GPUMUX_BUILD/workloads/gpumux-burn
deceiver=65534 stranger=65533 restarts=50
up() { start --emulate 1xH200:24g --policy firstfit --set monitor_hold_min=1s; }
mkdir -m 777 "$work/open"

# The identities that the workload claims: another workload, a service, a success, no devices.
cat > "$work/open/deceive" << 'END'
trap '' TERM
cd "$(dirname "$GPUMUX_CONTROL")" || exit 1
victims=$(cat "$1"/victims)
start_of() { sed 's/.*) //' "/proc/$1/stat" | cut -d ' ' -f 20; }
rm -f record.json.first; cp record.json record.json.first
while :; do
    for pid in $victims 1 $$; do
        sed -E -e "s/\"(supervisor|task)_pid\":[0-9]+/\"\1_pid\":$pid/g" \
            -e "s/\"(supervisor|task)_start\":[0-9]+/\"\1_start\":$(start_of "$pid")/g" \
            record.json.first > record.new && mv record.new record.json
        printf %s '{"workload":1,"attempt":1,"service":true,"command":["true"],"environment":[],' \
            '"directory":"/","grace_ms":86400000,"time_limit_ms":0,"fence_ms":0,"drain_ms":0,' \
            '"begin_by_ms":0,"log_file_bytes":1,"log_files":1,"ready":"started",' \
            '"ready_command":[],"ready_port":0,"stdin":false,"slo_percentile":99}' > grant.json
        printf %s '{"workload":1,"attempt":1,"started_wall_ms":1,"ended_wall_ms":2,' \
            '"failure":"none","exit_code":0,"signal":0,"never_ran":false,"text":""}' \
            > exit.new && mv exit.new exit.json
        rm -rf ready control.sock; ln -s /dev/null control.sock; mkdir ready
        for path in ../../records ../../records/1.1 ../../records/1.1.grant ../../locks/1.1 \
            ../../lease; do
            ! { cat "$path" || ls "$path" || echo '{}' > "$path"; } > "$1/stolen" 2> /dev/null \
                || [ "$path" = ../../lease ] || cp "$1/stolen" "$1/loot"
        done
        echo . >> "$1/rounds"
        rm -rf ready; : > ready
        sleep 0.05
    done
done
END
chmod 755 "$work/open/deceive"
setpriv --reuid $stranger --regid $stranger --clear-groups sleep 10000 &
victims=$!
sleep 10000 &
victims="$victims $!"
disown -a
echo "$victims" > "$work/open/victims"
up
id=$(as $deceiver "$ask" -d "{\"devices\": 1, \"quota\": \"4g\", \"grace\": \"1s\",
    \"directory\": \"/\", \"command\": $(json_shell \
    "$burn --step-ms 20 --memory 1g --steps 10000000 & exec sh $work/open/deceive $work/open")}" \
    "$GPUMUX_SOCKET" /v1/workloads 'workloads[0].id')
wait_field "$id" state running
[ "$id" = 1 ] || fail "it is workload $id"
rounds() { cat "$work/open/rounds" 2> /dev/null | wc -c; }
wait_until "it deceives" eval '[ "$(rounds)" -gt 10 ]'
supervisor=$(pgrep -f "gpumux supervise $id.1" | head -n 1)

echo "-- $restarts agents take over from each other"
for ((i = 0; i < restarts; i++)); do
    crash
    up
    has "$id" attempt,state $'1\nrunning' || fail "after $i restarts: $(show "$id")"
done
is_whole() { [ "$(field "$id" usage.protection.counted_bytes)" -ge $((1 << 30)) ]; }
wait_until "its account is the one that it had" is_whole
[[ $(field "$id" enforcement) == quota* ]] || fail "$(field "$id" enforcement)"
[ "$(jq -r .terms.kind <(head -n 1 "$state/node/records/$id.1.grant"))" = task ] \
    || fail "it is no task any more"
[ ! -e "$work/open/loot" ] || fail "it read $(cat "$work/open/loot")"

echo "-- its device wants it off: it goes, though it listens to nothing"
crash
up
"$gpumux" disable "$(field "$id" 'devices[0]')"
wait_until "its supervisor is gone" eval '! kill -0 "$supervisor"'
wait_until "its end is known" eval '[ -n "$(told exited "$id")" ]'
told 'exited.*its device is disabled' "$id" || fail "$(show "$id")"
for pid in $victims; do kill -0 "$pid" || fail "process $pid, which is not its, was ended"; done
wait_until "nothing of it is left" no_process "$work/open/[d]eceive"
# shellcheck disable=SC2086
kill $victims
cancel "$id"
stop
