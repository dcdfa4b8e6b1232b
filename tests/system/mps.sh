#!/bin/bash
# The MPS daemons of a node: one a device while it is used, taken over, never left behind. (What follows when one hangs
# or ends is in errors.sh.) On emulated devices.
. "$(dirname "$0")/lib.sh"
burn=$GPUMUX_BUILD/workloads/gpumux-burn
up() { start --emulate 2xH200:24g --policy firstfit "$@"; } # which puts all on one device
gpus() { json_with "$1" devices 1 quota '"4g"' command "$(json_words "$burn" --step-ms 5 --memory 1g --steps 1000000)"; }
directories() { ls "$state/node/mps"; }
daemon_of() { cat "$state/node/mps/$1/nvidia-cuda-mps-control.pid" 2> /dev/null; }
alive() { [ -n "$1" ] && grep -q . "/proc/$1/cmdline" 2> /dev/null; } # and not a corpse
our_burns() {
    local files
    files=$(grep -lszxF "GPUMUX_EMU=$state/emu/devices" /proc/[0-9]*/environ || true)
    # shellcheck disable=SC2086
    [ -z "$files" ] || grep -lsa gpumux-burn ${files//environ/cmdline} | cut -d / -f 3 || true
}
at_attempt() { [ "$(field "$1" attempt)" -ge "$2" ] && has "$1" state running; }
# Where it runs now: its device may have been out of use for a while.
follow() {
    part=$(field "$1" 'devices[0]')
    part=${part#GPU-}
    part=${part%%-*}
}

echo "-- the first that shares starts it, the next joins it, with shares and priorities"
up
first=$(submit "$(gpus '{"share": 30}')")
wait_field "$first" state running
part=$(directories)
[ "$(wc -w <<< "$part")" = 1 ] || fail "daemons of $part"
pid=$(daemon_of "$part")
alive "$pid" || fail "no daemon"
[[ $(field "$first" 'devices[0]') == GPU-$part-* ]] || fail "$part is not of its device"
cat > "$work/variables" <<'END'
CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30
CUDA_MPS_CLIENT_PRIORITY=1
CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1024M
END
"$gpumux" run --quota 1g --share 30 -- env | grep -E '^CUDA_MPS_(ACT|CLI|PIN)' | sort | cmp - "$work/variables"
"$gpumux" run -d 2 --quota 1g -- env | grep CUDA_MPS && fail "MPS over several devices"
clients() {
    echo "get_client_list $(echo get_server_list | CUDA_MPS_PIPE_DIRECTORY=$state/node/mps/$part "$GPUMUX_BUILD/emu/bin/nvidia-cuda-mps-control")" \
        | CUDA_MPS_PIPE_DIRECTORY=$state/node/mps/$part "$GPUMUX_BUILD/emu/bin/nvidia-cuda-mps-control"
}
wait_until "it is a client" eval '[ "$(clients | wc -l)" = 1 ]'

echo "-- an agent that crashes leaves it, the next takes it over, and does not let its log grow for ever"
crash
control_log=$state/node/mps/$part/control.log
head -c 2M < <(yes "a line of long ago") >> "$control_log"
up
[ "$(daemon_of "$part")" = "$pid" ] || fail "it was started anew"
has "$first" state running || fail "$(show "$first")"
"$gpumux" run --quota 1g -- "$burn" --step-ms 5 --memory 512m --steps 3
[ "$(daemon_of "$part")" = "$pid" ] || fail "it was started anew"
wait_until "its log is short again" eval '[ "$(stat -c %s "$control_log")" -lt 100000 ]'
grep -q "a line of long ago" "$control_log.old" || fail "the end of the log was not kept"
wait_until "it goes on with its log" grep -q 'Cmd:get_server_list' "$control_log"

echo "-- nobody uses it: it ends"
pid=$(daemon_of "$part")
cancel "$first"
ends "$first" cancelled
wait_until "it has ended" eval '! alive "$pid"'

echo "-- left by an agent and used by nobody: it ends with the next"
first=$(submit "$(gpus '{}')")
wait_field "$first" state running
part=$(basename "$(dirname "$(ls "$state"/node/mps/*/nvidia-cuda-mps-control.pid)")")
pid=$(daemon_of "$part")
crash
# shellcheck disable=SC2046
kill -TERM $(our_burns)
up
ends "$first" failed
wait_until "it has ended" eval '! alive "$pid"'

echo "-- its directory was removed: an emulated one ends by itself, and the next agent ends any other"
first=$(submit "$(gpus '{}')")
wait_field "$first" state running
follow "$first"
pid=$(daemon_of "$part")
wait_until "it is a client" eval '[ "$(clients | wc -l)" = 1 ]'
crash
kill -STOP "$pid" # as one that does not look
# shellcheck disable=SC2046
kill -KILL $(our_burns)
rm -r "${state:?}/node/mps"
up
wait_until "it has ended" eval '! alive "$pid"'
wait_until "it is tried again" at_attempt "$first" 2
follow "$first"
pid=$(daemon_of "$part")
alive "$pid" || fail "no daemon"
crash
# shellcheck disable=SC2046
kill -TERM $(our_burns)
wait_until "its client has ended" eval '[ -z "$(our_burns)" ]'
rm -r "${state:?}/node/mps"
wait_until "it has ended by itself" eval '! alive "$pid"'
up # which cannot tell whether its client ended because of that
wait_until "it is tried again" at_attempt "$first" 3
cancel "$first"
ends "$first" cancelled
stop
alive "$pid" && fail "left behind"

echo "-- turned off: clients that are there are looked after, and then it ends"
mps_is() { [ "$(device "$(device_of "$1")" mps)" = "$2" ]; }
device_of() { api GET /v1/nodes "nodes[0].devices[uuid=$(field "$1" 'devices[0]')].index"; }
are_well() { for index in 0 1; do wait_until "device $index is well" eval '[ "$(device $index state)" = healthy ]'; done; }
# A client that runs, and its daemon.
client_runs() {
    first=$(submit "$(gpus '{}')")
    wait_field "$first" state running
    follow "$first"
    wait_until "it is a client" eval '[ "$(clients | wc -l)" = 1 ]'
    pid=$(daemon_of "$part")
}
up
client_runs
stop
up --set mps=off
wait_until "it is watched" mps_is "$first" ready
at_attempt "$first" 1 && alive "$pid" || fail "it did not run on: $(show "$first")"
second=$(submit "$(gpus '{}')")
wait_until "who comes now does without" eval '[[ $(field "$second" enforcement) == *"MPS is off on this node"* ]]'
kill -KILL "$pid"
wait_until "that it is lost is known" eval '[ "$(field "$first" attempt)" = 2 ] && has "$first" failures 0'
are_well
for id in "$first" "$second"; do
    cancel "$id"
    ends "$id" cancelled
done
wait_until "none is left" eval '! alive "$(daemon_of "$part")"'
stop

echo "-- its program is no more: the same, as far as that goes"
mkdir -p "$work/lean/bin" "$work/lean/lib/gpumux/emu"
cp "$gpumux" "$work/lean/bin/gpumux"
cp "$GPUMUX_BUILD"/emu/lib*.so.1 "$work/lean/lib/gpumux/emu"
lean() { local gpumux=$work/lean/bin/gpumux; up; }
up
client_runs
stop
lean
has "$first" state running && alive "$pid" || fail "it did not run on: $(show "$first")"
cancel "$first"
ends "$first" cancelled
wait_until "it has ended" eval '! alive "$pid"'
stop
up
client_runs
cancel "$first"
ends "$first" cancelled
crash # before it ends by itself
lean
wait_until "it has ended" eval '! alive "$pid"'
stop

echo "-- its program cannot be run for a while: nobody is lost for that"
mps_is_said() { grep -q "MPS device=.* state=$1 text=\"$2" "$log"; }
mkdir "$work/bin"
control=$work/bin/nvidia-cuda-mps-control # as the daemon's process is known by
ln -s "$GPUMUX_BUILD/emu/bin/nvidia-cuda-mps-control" "$control"
up --set mps_control="$control"
client_runs
mv "$control" "$control.away"
wait_until "that is noticed" mps_is_said silent "$control cannot be run: No such file or directory"
second=$(submit "$(gpus '{}')")
pause 0.5 # for two looks of the watch
at_attempt "$first" 1 && alive "$pid" || fail "it did not run on: $(show "$first")"
mv "$control.away" "$control"
wait_until "it is asked again" mps_is_said ready "it answers again"
wait_until "who waited for it has it" eval '[ "$(clients | wc -l)" = 2 ]'
at_attempt "$first" 1 && [ "$(daemon_of "$part")" = "$pid" ] || fail "it was replaced: $(show "$first")"
mv "$control" "$control.away"
kill -KILL "$pid"
wait_until "one that has ended is lost all the same" told "MPS was lost: it has ended"
mv "$control.away" "$control"
wait_until "the first runs again" at_attempt "$first" 2
are_well
for id in "$first" "$second"; do
    cancel "$id"
    ends "$id" cancelled
done
stop

echo "-- without a program that starts it: in turns, and it says so, also to who comes later"
in_turns() { [[ $(field "$1" enforcement) == *"share by the rate of its launches: time-sliced"* ]]; }
# count_of TEXT: how many events say so by now; MPS may have been lost above.
count_of() { told "$1" | wc -l || true; }
limit_is() { [ "$(field "$1" "usage.protection.limits[name=$2].value")" = "$3" ]; }
up --set mps_control=/bin/false
losses=$(count_of "MPS was lost")
first=$(submit "$(gpus '{"share": 30}')")
wait_field "$first" state running
wait_until "it is an event" told "device_alarm.*without MPS, its workloads take turns"
second=$(submit "$(gpus '{"share": 30}')")
wait_field "$second" state running
for id in "$first" "$second"; do
    wait_until "$id says so" in_turns "$id"
    wait_until "$id is held to its share by its launches" limit_is "$id" rate_permille 300
done
[ "$(field "$first" 'devices[0]')" = "$(field "$second" 'devices[0]')" ] || fail "not on one device"

echo "-- and the next agent knows; what one of them does to itself does not end the other"
crash
up --set mps_control=/bin/false
in_turns "$first" || fail "$(show "$first")"
its_burn() { local pid; for pid in $(our_burns); do grep -qszxF "GPUMUX_WORKLOAD_ID=$1" "/proc/$pid/environ" && echo "$pid"; done; }
faults() { GPUMUX_EMU=$state/emu/devices "$GPUMUX_BUILD/emu/bin/gpumux-emu-fault" "$(device_of "$1")" illegal-address "$(its_burn "$1" | head -n 1)"; }
wait_until "the first faults" faults "$first"
wait_until "it is tried again" at_attempt "$first" 2
has "$second" state running && has "$second" attempt 1 || fail "its neighbour was ended: $(show "$second")"
[ "$(count_of "MPS was lost")" = "$losses" ] || fail "there was none to lose"
for id in "$first" "$second"; do
    cancel "$id"
    ends "$id" cancelled
done
stop

echo "-- one that cannot be replaced leaves its device disabled until it can"
mkdir -m 777 "$work/t"
cat > "$work/control" <<END
#!/bin/sh
[ ! -e $work/t/broken ] || exit 1
exec $GPUMUX_BUILD/emu/bin/nvidia-cuda-mps-control "\$@"
END
chmod 755 "$work/control"
up --set mps_control="$work/control"
first=$(submit "$(gpus '{}')")
wait_field "$first" state running
follow "$first"
index=$(device_of "$first")
pid=$(daemon_of "$part")
alive "$pid" || fail "no daemon"
passed=$(count_of "self-test passed")
touch "$work/t/broken"
kill -KILL "$pid"
wait_until "it is tried in vain" told "device_alarm.*MPS cannot be replaced"
pause 0.5 # for two looks of the watch
[ "$(device "$index" state)" = disabled ] || fail "it is $(device "$index" state)"
[ "$(count_of "self-test passed")" = "$passed" ] || fail "without MPS, its self-test passed"
rm "$work/t/broken"
wait_until "it was replaced, and tested" eval '[ "$(count_of "MPS was replaced, and the self-test passed")" -gt "$passed" ]'
wait_until "the task runs again" at_attempt "$first" 2
cancel "$first"
ends "$first" cancelled
stop
