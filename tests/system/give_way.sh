#!/bin/bash
# A service that needs more memory makes a swappable task give way; the task returns when the memory
# is free again. On an emulated device, with sizes of a hundredth.
. "$(dirname "$0")/lib.sh"
program=$GPUMUX_BUILD/tests/system/memory_program
# memory_wait: copies take long on a machine with other work.
up() {
    start --emulate 1xH200:1600m --policy firstfit --set host_memory_kept=64m \
        --set memory_wait=1m "$@"
}
# task NAME JSON MIB, service NAME JSON MIB MORE: start a workload in the directory $work/NAME.
task() {
    mkdir -p "$work/$1"
    submit "$(json_with "$2" devices 1 quota '"500m"' swappable true command \
        "$(json_words "$program" task "$work/$1" "$3")")"
}
service() {
    mkdir -p "$work/$1"
    submit "$(json_with "$2" kind '"service"' devices 1 quota '"1400m"' command \
        "$(json_words "$program" service "$work/$1" "$3" "$4")")"
}
number() { cat "$work/$1" 2> /dev/null || echo -1; }
is_there() { [ -e "$work/$1" ]; }
grows_on() { [ "$(number "$1/steps")" -gt "$2" ]; }
goes_on() {
    local steps
    steps=$(number "$1/steps")
    wait_until "$1 goes on" grows_on "$1" "$((steps + 40))"
}
used() { device 0 usage.memory_used_bytes; }
counter() { field "$1" "usage.protection.counters.$2"; }
counts() { [ "$(counter "$1" "$2")" -ge "$3" ]; }
is_away() { [ "$(field "$1" "usage.protection.limits[name=away_bytes].value")" -gt 0 ]; }
# both [MIB MORE]: a task, and a service that fills the device and grows
both() {
    t=$(task task '{}' 400)
    wait_until "the task has its memory" is_there task/ready
    s=$(service service '{}' "${1:-1180}" "${2:-80}")
    wait_until "the service has its memory" is_there service/ready
}
has_answer() { is_there service/grown || is_there service/failed; }
has_grown() {
    wait_until "the service has an answer" has_answer
    is_there service/grown || fail "the allocation failed"
}
end_both() {
    for id in "$s" "$t"; do cancel "$id"; ends "$id" cancelled; done
    rm -rf "$work/task" "$work/service"
}

echo "-- a growing service gets memory from a task, which goes on when the memory is free"
up
both
goes_on task
touch "$work/service/grow"
has_grown
wait_until "the task is away" is_away "$t"
"$gpumux" describe "$t" | grep -q 'away .*a service needs the device memory' \
    || fail "$("$gpumux" describe "$t")"
has "$t" state running && has "$s" state running || fail "$(show "$t")"
wait_until "an event tells of it" told "device_note.*workload $t gives"
touch "$work/service/shrink"
wait_until "the service has shrunk" is_there service/shrunk
goes_on task
wait_until "the moves are counted" counts "$t" swap_moves_back 1
wait_until "the wait is counted" counts "$s" room_waits 1
[ "$(counter "$t" swap_moved_out_bytes)" = "$(counter "$t" swap_moved_back_bytes)" ] \
    || fail "$(show "$t")"
[ "$(counter "$t" swap_moved_out_bytes)" -le $((112 << 20)) ] || fail "too much has moved"
! is_there service/failed || fail "an allocation failed"

echo "-- the end of the service brings the task back"
rm "$work/service/grown"
touch "$work/service/grow"
has_grown
wait_until "the task is away" is_away "$t"
kill -KILL "$(pgrep -f "$program service")"
goes_on task
cancel "$s"
ends "$s" cancelled
goes_on task

echo "-- a task that is killed while it is away leaves nothing, and its service goes on"
rm -r "$work/service"
s=$(service service '{}' 1180 80)
wait_until "the service has its memory" is_there service/ready
touch "$work/service/grow"
has_grown
wait_until "the task is away" is_away "$t"
kill -KILL "$(pgrep -f "$program task")"
wait_field "$t" state queued # it may be retried, and there is no room for it
has "$s" state running || fail "$(show "$s")"
for id in "$t" "$s"; do cancel "$id"; ends "$id" cancelled; done
device_is_empty() { [ "$(used)" = 0 ]; }
wait_until "the device is empty" device_is_empty
rm -rf "$work/task" "$work/service"

echo "-- a task with kernels under way gives way, also while it is held for a measurement"
t=$(submit "{\"devices\": 1, \"quota\": \"500m\", \"swappable\": true, \"command\": $(json_words \
    "$GPUMUX_BUILD/workloads/gpumux-burn" --step-ms 5 --memory 400m --steps 1000000)}")
can_move() { "$gpumux" describe "$t" | grep 'away .*can move'; }
wait_until "its memory can move" can_move
mkdir -p "$work/service"
s=$(service service '{}' 1180 80)
wait_until "the service has its memory" is_there service/ready
touch "$work/service/grow"
has_grown
touch "$work/service/shrink"
wait_until "the memory is back" counts "$t" swap_moves_back 1
launches() { counter "$1" launches_kernel; }
before=$(launches "$t")
wait_until "the task goes on" eval '[ "$(launches "$t")" -gt $((before + 20)) ]'
has "$t" state running && has "$s" state running || fail "$(show "$t")"
end_both

echo "-- the agent's death in the middle of a move loses nothing"
both
touch "$work/service/grow"
crash
up
wait_until "the service has an answer" has_answer
touch "$work/service/shrink"
goes_on task
has "$s" state running || fail "$(show "$s")"
end_both

echo "-- without host memory the task stays, and the allocation fails as on a full device"
stop
up --set host_memory_kept=1024t
both 1000 300 # below the memory limit of the device, which would evict the task
touch "$work/service/grow"
wait_until "the allocation has failed" is_there service/failed
goes_on task
wait_until "an event tells why" told 'device_note.*MiB of host memory are to spare'
counts "$t" swap_moves_out 0 && [ "$(counter "$t" swap_moves_out)" = 0 ] || fail "it has moved"
end_both

echo "-- a task that is away for too long is requeued"
stop
up --set memory_away=1s
both
touch "$work/service/grow"
has_grown
wait_field "$t" state queued
has "$s" state running || fail "$(show "$s")"
end_both

echo "-- placement counts on swappable tasks for services alone"
plain=$(submit "{\"devices\": 1, \"quota\": \"500m\", \"command\": [\"sleep\", \"1000\"]}")
wait_field "$plain" state running
refused=$(service refused '{}' 100 1)
wait_until "it waits" eval '[[ $(field "$refused" text) == *memory* ]]'
cancel "$plain"
ends "$plain" cancelled
wait_field "$refused" state running
cancel "$refused"
ends "$refused" cancelled

echo "-- the command line takes the key, for tasks with a quota"
exits 2 "$gpumux" submit --swappable -- sleep 1
said 'swappable: needs a quota'
exits 2 "$gpumux" submit --kind service --swappable --quota 1g -- sleep 1
said 'swappable: must not be true for a service'
t=$("$gpumux" submit --swappable --quota 500m -- "$program" task "$work" 16)
t=${t//[^0-9]/}
wait_until "its memory can move" can_move

echo "-- the driver does not move memory that moves by itself"
cancel "$t"
ends "$t" cancelled
stop
up --set mps=off
both
exits 1 "$gpumux" suspend "$t"
said 'it is swappable'
touch "$work/service/grow"
has_grown
touch "$work/service/shrink"
goes_on task
