#!/bin/bash
# A workload that keeps rewriting all files that its user can write, while agents are restarted: it
# cannot escape an eviction, its quota or its kind, and no other process is harmed. On an emulated
# device.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root, to run a workload as another user"
stage_build
burn=$GPUMUX_BUILD/workloads/gpumux-burn
deceiver=65534 stranger=65533 restarts=50
up() { start --emulate 1xH200:24g --policy firstfit --set monitor_hold_min=1s "$@"; }
mkdir -m 777 "$work/open"

# The identities that the workload claims: another workload, a service, a success, no devices.
cat > "$work/open/deceive" << 'END'
trap '' TERM
cd "$(dirname "$GPUMUX_CONTROL")" || exit 1
victims=$(cat "$1"/victims)
start_of() { sed 's/.*) //' "/proc/$1/stat" | cut -d ' ' -f 20; }
for pid in $victims 1 $$; do # here, as a round must not keep a core busy
    sed -E -e "s/\"(supervisor|task)_pid\":[0-9]+/\"\1_pid\":$pid/g" \
        -e "s/\"(supervisor|task)_start\":[0-9]+/\"\1_start\":$(start_of "$pid")/g" \
        record.json > "record.of.$pid"
done
while :; do
    for pid in $victims 1 $$; do
        cp "record.of.$pid" record.new && mv record.new record.json
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
            ! { true < "$path" || echo '{}' > "$path"; } 2> /dev/null \
                || [ "$path" = ../../lease ] || { cat "$path" || ls "$path"; } > "$1/loot" 2>&1
        done
        if [ -e "$1/try" ] && [ ! -e "$1/tried" ]; then
            "$2" --memory 4g --step-ms 1 --steps 1 > "$1/refusal" 2>&1
            echo $? > "$1/tried"
        fi
        echo . >> "$1/rounds"
        rm -rf ready; : > ready
        sleep 0.2
    done
done
END
# hide WHAT: a task whose supervisor will be killed, and that has forged one file by then.
cat > "$work/open/hide" << 'END'
trap '' TERM
cd "$(dirname "$GPUMUX_CONTROL")" || exit 1
setsid sleep "54321$2" < /dev/null > /dev/null 2>&1 &
forge_exit() {
    printf %s "{\"workload\":$GPUMUX_WORKLOAD_ID,\"attempt\":1,\"started_wall_ms\":1," \
        "\"ended_wall_ms\":2,\"failure\":\"$1\",\"exit_code\":0,\"signal\":0," \
        '"never_ran":false,"text":""}' > exit.new && mv exit.new exit.json
}
while :; do
    case $2 in
    1) rm -f record.json exit.json exit.json.tmp ;;
    2) sed 's/"boot_id":"[^"]*"/"boot_id":"another"/' record.json > new && mv new record.json ;;
    3) forge_exit none ;;
    4) forge_exit timeout ;;
    5) sed 's/"grace_ms":1000/"grace_ms":315360000000/' "$1/grant" > new && mv new grant.json ;;
    esac
    [ -s "$1/hides$2" ] || echo $PPID > "$1/hides$2"
    sleep 0.1
done
END
chmod 755 "$work/open/deceive" "$work/open/hide"
setpriv --reuid $stranger --regid $stranger --clear-groups sleep 10000 &
victims=$!
sleep 10000 &
victims="$victims $!"
disown -a
echo "$victims" > "$work/open/victims"
up
id=$(as $deceiver "$ask" -d "{\"devices\": 1, \"quota\": \"4g\", \"grace\": \"1s\",
    \"directory\": \"/\", \"command\": $(json_shell \
    "$burn --step-ms 20 --memory 1g --steps 10000000 &
    exec sh $work/open/deceive $work/open $burn")}" \
    "$GPUMUX_SOCKET" /v1/workloads 'workloads[0].id')
wait_field "$id" state running
[ "$id" = 1 ] || fail "it is workload $id"
rounds() { cat "$work/open/rounds" 2> /dev/null | wc -c; }
wait_until "it deceives" eval '[ "$(rounds)" -gt 10 ]'
supervisor=$(jq -r .supervisor_pid "$state/node/records/$id.1")

# hide WHAT DEVICES: prints its id.
hide() {
    local quota
    [ "$2" = 0 ] && quota= || quota='"quota": "1g",'
    as $deceiver "$ask" -d "{\"devices\": $2, $quota \"grace\": \"1s\",
        \"directory\": \"/\", \"command\": $(json_words sh "$work/open/hide" "$work/open" "$1")}" \
        "$GPUMUX_SOCKET" /v1/workloads 'workloads[0].id'
}
removed=$(hide 1 0) boot=$(hide 2 0) exit=$(hide 3 0) timeout=$(hide 4 1) grant=$(hide 5 1)
for n in 1 2 3 4 5; do wait_until "task $n hides" test -s "$work/open/hides$n"; done
for n in "$removed" "$boot" "$exit" "$timeout" "$grant"; do wait_field "$n" state running; done

# as_before ID: replaces its record by the files of version 0.1, of which the user forges one.
as_before() {
    local record=$state/node/records/$1.1
    mkdir -p -m 700 "$state/node/terms"
    head -n 1 "$record.grant" | jq -c .terms > "$state/node/terms/$1.1"
    sed -n 2p "$record.grant" > "$work/open/grant"
    chmod 644 "$work/open/grant"
    rm "$record" "$record.grant"
    wait_until "it has forged its grace" \
        grep -q '"grace_ms":315360000000' "$state/node/attempts/$1.1/grant.json"
}
supervisor_is_gone() { ! kill -0 "$(cat "$work/open/hides$1")"; }

echo "-- $restarts agents take over from each other"
for ((i = 0; i < restarts; i++)); do
    crash
    case $i in
    10) for n in 1 2 3; do kill -KILL "$(cat "$work/open/hides$n")"; done
        for n in 1 2 3; do wait_until "supervisor $n is gone" supervisor_is_gone "$n"; done ;;
    20) as_before "$grant" ;;
    30) rm "$state/node/records/$id.1" ;;
    esac
    if [ $i = 10 ]; then up --set cgroup=off; else up; fi
    has "$id" attempt,state $'1\nrunning' || fail "after $i restarts: $(show "$id")"
done
is_whole() { [ "$(field "$id" usage.protection.counted_bytes)" -ge $((1 << 30)) ]; }
wait_until "its account is the one that it had" is_whole
[[ $(field "$id" enforcement) == quota* ]] || fail "$(field "$id" enforcement)"
[ "$(jq -r .terms.kind <(head -n 1 "$state/node/records/$id.1.grant"))" = task ] \
    || fail "it is no task any more"
[ ! -e "$work/open/loot" ] || fail "it read $(cat "$work/open/loot")"
: > "$work/open/try"
wait_until "it has tried to exceed its quota" test -s "$work/open/tried"
grep -q "out of device memory" "$work/open/refusal" || fail "$(cat "$work/open/refusal")"

echo "-- ends that it hid are known, and nothing of them is left"
for n in "$removed" "$boot"; do
    told 'exited.*its supervisor was killed' "$n" || fail "$(show "$n")"
    has "$n" failures 1 || fail "$(show "$n")"
    cancel "$n"
done
ends "$exit" succeeded
for n in 1 2 3; do wait_until "task $n is gone" no_process "[s]leep 54321$n"; done
grace=$(head -n 1 "$state/node/records/$grant.1.grant" | jq .grace_ms)
[ "$grace" = 10000 ] || fail "its grace is $grace ms"
has "$grant" attempt,state $'1\nrunning' || fail "$(show "$grant")"
cancel "$grant"

echo "-- its device wants it off: it goes, though it listens to nothing"
crash
up
kill -STOP "$supervisor"
"$gpumux" disable "$(field "$id" 'devices[0]')"
wait_until "its supervisor is gone" eval '! kill -0 "$supervisor"'
wait_until "its end is known" eval '[ -n "$(told exited "$id")" ]'
told 'exited.*its device is disabled' "$id" || fail "$(show "$id")"
wait_until "the other end is known" eval '[ -n "$(told exited "$timeout")" ]'
told 'exited.*its device is disabled' "$timeout" || fail "$(show "$timeout")"
for pid in $victims; do kill -0 "$pid" || fail "process $pid, which is not its, was ended"; done
wait_until "nothing of it is left" no_process "$work/open/[d]eceive"
# shellcheck disable=SC2086
kill $victims
cancel "$id"
cancel "$timeout"
stop
