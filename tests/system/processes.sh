#!/bin/bash
# Processes of a task end with the task: children with sessions of their own, and the task if its
# supervisor is killed. Also: workloads that survive the end of a daemon.
. "$(dirname "$0")/lib.sh"

# A sleep time that no other process uses, to find children.
mark=$((3600 + RANDOM)).$$

setsid_children_end() {
    local id
    id=$(submit "{\"command\": \"setsid sleep $mark & setsid setsid sh -c 'trap : TERM; \
sleep $mark' & (setsid sh -c 'sleep $mark & sleep $mark' &) ; \
until [ -e $work/leave ]; do sleep 0.02; done\"}")
    wait_until "four children sleep" four_sleep
    touch "$work/leave"
    ends "$id" succeeded
    wait_until "they have ended with their task" no_process "sleep $mark"
    rm "$work/leave"
}
no_supervisor() { [ -z "$(our_processes)" ]; }
four_sleep() { [ "$(pgrep -cfx "sleep $mark")" = 4 ]; }

# has_ended PID: the process is gone, or an unreaped zombie.
has_ended() { [ -z "$(tr -d '\0' 2> /dev/null < "/proc/$1/cmdline")" ]; }

start --emulate 1xT4 --set cgroup=off
setsid_children_end

echo "-- a killed supervisor ends its task, which is a failed attempt"
id=$(submit "{\"command\": \"echo \$\$ \$PPID > $work/pids.\$GPUMUX_ATTEMPT; exec sleep $mark\",
    \"retries\": 1}")
for attempt in 1 2 3 4; do # external kills are retried three times
    wait_until "attempt $attempt runs" test -s "$work/pids.$attempt"
    read -r task supervisor < "$work/pids.$attempt"
    [ "$(tr '\0' ' ' < "/proc/$supervisor/cmdline")" = "gpumux supervise $id.$attempt " ] \
        || fail "$supervisor is no supervisor"
    wait_field "$id" state running
    kill -KILL "$supervisor"
    # By its pid, because the next attempt may run already.
    wait_until "task $task is gone" has_ended "$task"
done
ends "$id" failed
[ "$(field "$id" attempt,failures)" = $'4\n4' ] || fail "$(show "$id")"

echo "-- a task lives on while nobody is up, and its end is kept"
id=$(submit "{\"command\": \"until [ -e $work/end ]; do sleep 0.02; done; echo done; exit 5\"}")
wait_field "$id" state running
stop
touch "$work/end"
wait_until "its supervisor has ended" no_supervisor
start --emulate 1xT4 --set cgroup=off
ends "$id" failed exit
[ "$(field "$id" exit_code)" = 5 ] || fail "$(show "$id")"
api GET "/v1/workloads/$id/logs" | grep -q 'stdout F done$' || fail "its output is gone"
stop

# groups_are yes|no: starts a node, which makes control groups if and only if doctor says so.
groups_are() {
    local id said=no made=no
    ${run_as[@]+"${run_as[@]}"} "$gpumux" doctor --state "$state" > "$work/doctor" || true
    ! grep -q 'ok .* cgroup v2 is writable at' "$work/doctor" || said=yes
    start --emulate 1xT4 --set cgroup=auto
    id=$(submit '{"command": "grep ^0:: /proc/self/cgroup"}')
    ends "$id" succeeded
    ! api GET "/v1/workloads/$id/logs" | grep -q "/$id\.1/task\$" || made=yes
    [ "$said $made" = "$1 $1" ] \
        || fail "groups: doctor says $said, the node made $made: $(grep cgroup "$work/doctor")"
}

echo "-- with control groups, where they are or can be mounted"
groups=yes
if ! place=$(writable_cgroup); then
    mkdir "$work/groups"
    run_as=(unshare --mount sh -c 'mount -t cgroup2 none "$0" && exec "$@"' "$work/groups")
    if ! "${run_as[@]}" true; then
        groups=no run_as=()
        skip_part "no cgroup v2 hierarchy is writable, and none can be mounted"
    fi
fi
groups_are $groups
setsid_children_end
stop

echo "-- in a group that may have no groups"
if [ -n "$place" ] && mkdir "$place/gpumux-full-$$"; then
    echo 0 > "$place/gpumux-full-$$/cgroup.max.descendants"
    run_as=(sh -c 'echo 0 > "$0/cgroup.procs" && exec "$@"' "$place/gpumux-full-$$")
    groups_are no
    stop
    wait_until "the group is empty" rmdir "$place/gpumux-full-$$"
else
    skip_part "no cgroup v2 hierarchy is writable"
fi
