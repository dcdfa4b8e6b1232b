#!/bin/bash
# The MPS daemons of a node: one for each device in use, adopted after a restart, never left behind.
# errors.sh tests hanging and ended daemons, mps_program.sh a faulty program.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mps_lib.sh"
directories() { ls "$state/node/mps"; }

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
"$gpumux" run --quota 1g --share 30 -- env | grep -E '^CUDA_MPS_(ACT|CLI|PIN)' | sort \
    | cmp - "$work/variables"
"$gpumux" run -d 2 --quota 1g -- env | grep CUDA_MPS && fail "MPS over several devices"
wait_until "it is a client" eval '[ "$(clients | wc -l)" = 1 ]'
wait_until "its share is read back in its process" eval \
    '"$gpumux" describe "$first" | grep -q "enforced by MPS: 38 SMs"'

echo "-- after a crash of the agent the next adopts the daemon, and limits the size of its log"
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

echo "-- its directory is removed: an emulated daemon ends, and the next agent ends any other"
first=$(submit "$(gpus '{}')")
wait_field "$first" state running
follow "$first"
pid=$(daemon_of "$part")
wait_until "it is a client" eval '[ "$(clients | wc -l)" = 1 ]'
crash
kill -STOP "$pid" # like a process that does not look
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
up # the new agent cannot tell why its client ended
wait_until "it is tried again" at_attempt "$first" 3
cancel "$first"
ends "$first" cancelled
stop
alive "$pid" && fail "left behind"

echo "-- turned off: clients that are there are looked after, and then it ends"
up
client_runs
stop
up --set mps=off
wait_until "it is watched" mps_is "$first" ready
at_attempt "$first" 1 && alive "$pid" || fail "it did not run on: $(show "$first")"
second=$(submit "$(gpus '{}')")
wait_until "who comes now does without" eval \
    '[[ $(field "$second" enforcement) == *"MPS is off on this node"* ]]'
kill -KILL "$pid"
wait_until "that it is lost is known" eval \
    '[ "$(field "$first" attempt)" = 2 ] && has "$first" failures 0'
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
crash # before the attempt ends by itself
lean
wait_until "it has ended" eval '! alive "$pid"'
stop
