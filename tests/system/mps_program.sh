#!/bin/bash
# The MPS daemons of a node with a faulty control program: missing, slow, or without some commands.
. "$(dirname "$0")/lib.sh"
stage_build
. "$(dirname "$0")/mps_lib.sh"
mkdir -m 777 "$work/t"
control=$work/control # another name than the daemon's usual one
# control_first COMMAND: the program runs this command first.
control_first() {
    rm -f "$control"
    printf '#!/bin/sh\n%s\nexec %s "$@"\n' "$1" "$GPUMUX_BUILD/emu/bin/nvidia-cuda-mps-control" \
        > "$control"
    chmod 755 "$control"
}

echo "-- its program cannot be run for a while: nobody is lost for that"
# mps_is_said STATE TEXT [TIMES]: the log has the change of state.
mps_is_said() {
    [ "$(grep -c "mps state changed device=.* state=$1 reason=\"$2" "$log")" -ge "${3:-1}" ]
}
ln -s "$GPUMUX_BUILD/emu/bin/nvidia-cuda-mps-control" "$control"
up --set mps_control="$control"
client_runs
mv "$control" "$control.away"
wait_until "that is noticed" mps_is_said silent "$control cannot be run: No such file or directory"
second=$(submit "$(gpus '{}')")
pause 0.5 # two checks of the watch
at_attempt "$first" 1 && alive "$pid" || fail "it did not run on: $(show "$first")"
mv "$control.away" "$control"
wait_until "it is asked again" mps_is_said ready "it answers again"
wait_until "who waited for it has it" eval '[ "$(clients | wc -l)" = 2 ]'
at_attempt "$first" 1 && [ "$(daemon_of "$part")" = "$pid" ] \
    || fail "it was replaced: $(show "$first")"
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

echo "-- on a slow machine it is taken over with the patience that it is watched with"
control_first "if [ -e $work/t/slow ] || [ \"\$1\" = -v ]; then sleep 1.5; fi"
up --set mps_control="$control"
client_runs
crash
touch "$work/t/slow"
before=$(grep -c "it does not answer" "$log" || true)
up --set mps_control="$control"
wait_until "it was taken over, and is silent" mps_is_said silent "it does not answer" \
    $((before + 1))
rm "$work/t/slow"
wait_until "it is well" mps_is "$first" ready
at_attempt "$first" 1 && [ "$(daemon_of "$part")" = "$pid" ] \
    || fail "it was replaced: $(show "$first")"
cancel "$first"
ends "$first" cancelled
stop

echo "-- who is cancelled while it starts does not wait for it, and never runs"
control_first "[ \"\$1\" != -d ] || while [ ! -e $work/t/go ]; do sleep 0.05; done"
up --set mps_control="$control"
first=$(submit \
    "$(json_with '{}' devices 1 quota '"4g"' command "$(json_words touch "$work/t/ran")")")
wait_until "it waits" mps_is "$first" starting
cancel "$first"
ends "$first" cancelled
[ "$(device "$(device_of "$first")" mps)" = starting ] || fail "MPS did not start any more"
[ "$(field "$first" text)" = "cancelled before running" ] || fail "$(show "$first")"

echo "-- who waited in vain has nothing to resume"
first=$(submit \
    "$(json_with '{}' devices 1 quota '"4g"' command "$(json_words touch "$work/t/begun")" resume \
    "$(json_words touch "$work/t/resumed")")")
wait_until "it waits" mps_is "$first" starting
out_of_use=$(field "$first" 'devices[0]')
"$gpumux" disable "$out_of_use"
wait_until "it is to run elsewhere" eval '[ "$(field "$first" attempt)" = 2 ]'
touch "$work/t/go"
ends "$first" succeeded
[ -e "$work/t/begun" ] && [ ! -e "$work/t/resumed" ] || fail "it resumed"
[ ! -e "$work/t/ran" ] || fail "the one that was cancelled ran"
"$gpumux" enable "$out_of_use"
are_well
stop

echo "-- without a program that starts it: in turns, and it says so, also to who comes later"
# its_node_says ID: the node has reported the limits, which control does not know before.
its_node_says() {
    local text
    text=$(field "$1" enforcement) && [[ $text != *"are enforced once the workload runs" ]]
}
in_turns() {
    [[ $(field "$1" enforcement) == *"share by the rate of its launches: time-sliced"* ]]
}
# count_of TEXT: prints the number of such events so far; MPS may have been lost above.
count_of() { told "$1" | wc -l || true; }
limit_is() { [ "$(field "$1" "usage.protection.limits[name=$2].value")" = "$3" ]; }
up --set mps_control=/bin/false
losses=$(count_of "MPS was lost")
first=$(submit "$(gpus '{"share": 30}')")
wait_field "$first" state running
wait_until "it is an event" told \
    "device_alarm.*without MPS, its workloads take turns: /bin/false does not start"
"$gpumux" nodes -o wide | grep ' failed ' > /dev/null || fail "$("$gpumux" nodes -o wide)"
second=$(submit "$(gpus '{"share": 30}')")
wait_field "$second" state running
for id in "$first" "$second"; do
    wait_until "$id says so" in_turns "$id"
    wait_until "$id is held to its share by its launches" limit_is "$id" rate_permille 300
done
[ "$(field "$first" 'devices[0]')" = "$(field "$second" 'devices[0]')" ] || fail "not on one device"
its_burn() {
    local pid; for pid in $(our_burns); do grep -qszxF "GPUMUX_WORKLOAD_ID=$1" \
        "/proc/$pid/environ" && echo "$pid"; done
}
# is_told_of_mps ID: the process has the variables of MPS, and would find a daemon that starts
# later.
is_told_of_mps() { grep -qz '^CUDA_MPS_' "/proc/$(its_burn "$1" | head -n 1)/environ"; }
for id in "$first" "$second"; do
    wait_until "it computes" eval '[ -n "$(its_burn "$id")" ]'
    is_told_of_mps "$id" && fail "it is to find a daemon"
done

echo "-- and the next agent knows; what one of them does to itself does not end the other"
crash
up --set mps_control=/bin/false
wait_until "it speaks of it" its_node_says "$first"
in_turns "$first" || fail "$(show "$first")"
faults() {
    GPUMUX_EMU=$state/emu/devices "$GPUMUX_BUILD/emu/bin/gpumux-emu-fault" "$(device_of "$1")" \
        illegal-address "$(its_burn "$1" | head -n 1)"
}
wait_until "the first faults" faults "$first"
wait_until "it is tried again" at_attempt "$first" 2
has "$second" state running && has "$second" attempt 1 \
    || fail "its neighbour was ended: $(show "$second")"
[ "$(count_of "MPS was lost")" = "$losses" ] || fail "there was none to lose"
for id in "$first" "$second"; do
    cancel "$id"
    ends "$id" cancelled
done
stop

echo "-- one that cannot be replaced leaves its device disabled until it can"
control_first "[ ! -e $work/t/broken ] || exit 1"
up --set mps_control="$control"
first=$(submit "$(gpus '{}')")
wait_field "$first" state running
follow "$first"
index=$(device_of "$first")
pid=$(daemon_of "$part")
alive "$pid" || fail "no daemon"
passed=$(count_of "self-test passed")
in_vain=$(count_of "device_alarm.*MPS cannot be replaced")
touch "$work/t/broken"
# The agent may find that MPS does not answer, and end the daemon, before the kill.
kill -KILL "$pid" || ! kill -0 "$pid"
wait_until "it is tried in vain" eval \
    '[ "$(count_of "device_alarm.*MPS cannot be replaced")" -gt "$in_vain" ]'
pause 0.5 # two checks of the watch
[ "$(device "$index" state)" = disabled ] || fail "it is $(device "$index" state)"
[ "$(count_of "self-test passed")" = "$passed" ] || fail "without MPS, its self-test passed"
rm "$work/t/broken"
wait_until "it was replaced, and tested" eval \
    '[ "$(count_of "MPS was replaced, and the self-test passed")" -gt "$passed" ]'
wait_until "the task runs again" at_attempt "$first" 2
cancel "$first"
ends "$first" cancelled
stop

echo "-- where MPS is for one user at a time, others take turns, and it may change hands"
if [ "$(id -u)" = 0 ]; then
    control_first "for word; do [ \"\$word\" != -multiuser-server ] || exit 1; done
case \$1 in -d) while [ -e $work/t/hold ]; do sleep 0.05; done;; esac"
    anothers="MPS is for one user at a time here, and another has it"
    does_without() {
        [[ $(field "$1" enforcement) == *"$anothers" ]] && [ -n "$(its_burn "$1")" ] \
            && ! is_told_of_mps "$1"
    }
    # only_client ID: no other process is a client.
    only_client() { [ -n "$(clients)" ] && [ "$(clients)" = "$(its_burn "$1")" ]; }
    touch "$work/t/hold"
    up --set mps_control="$control"
    are_well
    losses=$(count_of "device_alarm.*MPS was lost")
    first=$(submit "$(gpus '{}')")
    second=$(submit "$(gpus '{"user": "nobody"}')")
    wait_until "both wait for it" test -e "$state/node/records/$first.1.grant" \
        -a -e "$state/node/records/$second.1.grant"
    rm "$work/t/hold"
    follow "$first"
    wait_until "the first has it" only_client "$first"
    wait_until "the other does without" does_without "$second"
    third=$(submit "$(gpus '{"user": "nobody"}')")
    wait_until "and so does who comes later" does_without "$third"
    cancel "$first"
    ends "$first" cancelled
    first=$(submit "$(gpus '{"user": "nobody"}')")
    wait_until "it is the next one's" only_client "$first"
    wait_until "the agent has seen that" grep -q "Cmd:get_server_status $(servers)\$" \
        "$state/node/mps/$part/control.log"
    crash
    up --set mps_control="$control"
    of_root=$(submit "$(gpus '{}')")
    wait_until "the next agent knows" does_without "$of_root"
    [ "$(count_of "device_alarm.*MPS was lost")" = "$losses" ] || fail "it was taken for lost"
    wait_until "its server crashes" env GPUMUX_EMU="$state/emu/devices" \
        CUDA_MPS_PIPE_DIRECTORY="$state/node/mps/$part" \
        "$GPUMUX_BUILD/emu/bin/gpumux-emu-fault" "$(device_of "$first")" mps-server-crash
    wait_until "that is a loss" eval \
        '[ "$(count_of "device_alarm.*MPS was lost: its server has ended")" -gt 0 ]'
    wait_until "it runs again" at_attempt "$first" 2
    follow "$first"
    wait_until "it is a client" only_client "$first"
    are_well # the self-test ran as root
    fourth=$(submit "$(gpus '{"user": "nobody"}')")
    wait_until "who comes after that is a client" eval \
        'follow "$fourth" && clients | grep -qx "$(its_burn "$fourth")"'
    for id in "$first" "$second" "$third" "$fourth" "$of_root"; do
        cancel "$id"
        ends "$id" cancelled
    done
    [ "$(count_of "device_alarm.*MPS was lost")" = $((losses + 1)) ] \
        || fail "it was lost again: $(told "MPS was lost")"
    stop
else
    skip_part "as another user: this is not root"
fi
