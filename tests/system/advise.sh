#!/bin/bash
# Advice from the command to programs, which follow it: one that uses the device, through the pages
# of the shim, and one that does not, through its supervisor. Advice outlives control and agent.
. "$(dirname "$0")/lib.sh"
program=$GPUMUX_BUILD/tests/system/client_program
start --emulate 1xT4

printed() { output "$1" | cut -d ' ' -f 4-; }
# shellcheck disable=SC2317
says() { printed "$1" | grep -qxF "$2"; }
# shellcheck disable=SC2317
count_is() { [ "$(printed "$1" | grep -cxF "$2")" = "$3" ]; }
# shellcheck disable=SC2317
described() { "$gpumux" describe "$1" | grep -q "^Advice *$2"; }

# follow NAME ARGUMENTS KEYS: submits the program; both in JSON.
follow() {
    submit "{\"name\": \"$1\", \"command\": [\"$program\", \"follow\"$2], $3
        \"batch\": {\"reference\": 64, \"min\": 32, \"max\": 128, \"step\": 16}}"
}
used=$(follow used ', "cuda"' '"devices": 1, "quota": "1g",')
bare=$(follow bare "" "")

for id in $used $bare; do
    echo "-- workload $id follows advice"
    wait_until "it runs with its own size" says "$id" "batch 64"
    "$gpumux" advise --batch 50 "$id"
    wait_until "it takes the size, a multiple of its step" says "$id" "batch 48"
    wait_until "describe shows it" described "$id" "batch size 50, followed; batch size in use 48"
    [ "$(field "$id" batch_advised)" = 50 ] || fail "batch_advised: $(field "$id" batch_advised)"
    says "$id" checkpoint && fail "a checkpoint that nobody wanted"
    "$gpumux" advise --checkpoint "$id"
    wait_until "it saves a checkpoint" says "$id" checkpoint
    "$gpumux" advise --batch 1000000 --checkpoint "$id"
    wait_until "it keeps its largest size" says "$id" "batch 128"
    wait_until "it saves again" count_is "$id" checkpoint 2
done

echo "-- advice outlives control and agent"
crash
start --emulate 1xT4
for id in $used $bare; do
    wait_until "describe shows it" described "$id" "batch size 1000000, 2 checkpoints, followed"
    "$gpumux" advise --batch 0 "$id"
    wait_until "the size is its own again" count_is "$id" "batch 64" 2
    count_is "$id" checkpoint 2 || fail "old advice was followed again: $(printed "$id")"
done

echo "-- the next attempt has the size, and no request"
"$gpumux" advise --batch 96 "$bare"
wait_until "it takes the size" says "$bare" "batch 96"
"$gpumux" requeue "$bare"
wait_field "$bare" attempt 2
wait_until "the next attempt takes the size" says "$bare" "batch 96"
says "$bare" checkpoint && fail "a checkpoint of an earlier attempt"

echo "-- refused advice"
"$gpumux" advise "$bare" 2> /dev/null && fail "advice without content"
"$gpumux" advise --batch x "$bare" 2> /dev/null && fail "advice of a size that is no number"
"$gpumux" advise --checkpoint 999 2> /dev/null && fail "advice to nobody"
cancel "$used"
cancel "$bare"
ends "$used" cancelled
ends "$bare" cancelled
"$gpumux" advise --batch 5 "$bare" 2> /dev/null && fail "advice to a workload that has ended"
stop
