#!/bin/bash
# libgpumux in a workload: facts, reports, and the readiness of a service; and in a program outside
# of gpumux, where the library does nothing.
. "$(dirname "$0")/lib.sh"
program=$GPUMUX_BUILD/tests/system/client_program
# So deep that the path of the reports' socket is longer than a socket address, and the API's is
# not.
state=$work/$(printf 'd%.0s' {1..75})
export GPUMUX_SOCKET=$state/api.sock
[ ${#GPUMUX_SOCKET} -lt 108 ] || fail "the directory is too deep: $GPUMUX_SOCKET"
start --emulate 1xT4

# said ID: prints the output without times.
said() { output "$1" | cut -d ' ' -f 4-; }
# shellcheck disable=SC2317
says() { said "$1" | grep -qxF "$2"; }

echo "-- outside of gpumux"
[ "$(env -i "$program" facts)" = "id=0
name=
attempt=0
array_index=-1
node=
quota_bytes=0
share=0-100
batch=7 0-0 by 0" ] || fail "$(env -i "$program" facts)"

echo "-- what a workload knows"
id=$(submit "{\"name\": \"look\", \"command\": [\"$program\", \"facts\"], \"array\": 2,
    \"devices\": 1, \"quota\": \"2g\", \"share\": {\"min\": 10, \"max\": 40},
    \"batch\": {\"reference\": 64, \"min\": 32, \"max\": 128, \"step\": 16}}")
ends "$id" succeeded
[ "$(said "$id")" = "id=$id
name=look[0]
attempt=1
array_index=0
node=$(api GET /v1/nodes 'nodes[0].name')
quota_bytes=2147483648
share=10-40
batch=64 32-128 by 16" ] || fail "$(said "$id")"

echo "-- progress"
id=$(submit "{\"command\": [\"$program\", \"train\"]}")
wait_field "$id" state running
control=$(tr '\0' '\n' < "/proc/$(pgrep -fx "$program train")/environ" \
    | sed -n 's/^GPUMUX_CONTROL=//p')
[ ${#control} -ge 108 ] || fail "the path is too short for this test: $control"
# 1,000 samples a second, fewer on a busy machine.
moves() { field "$id" usage.samples_per_s | awk '{ exit !($1 + 0 > 10 && $1 + 0 < 1200) }'; }
wait_until "its speed is known" moves
says "$id" "not heard" && fail "a report was not heard"
cancel "$id"
ends "$id" cancelled

echo "-- a service that says when it is ready"
id=$(submit "{\"kind\": \"service\", \"command\": [\"$program\", \"serve\", \"$work/go\"],
    \"ready\": \"client\"}")
wait_field "$id" state starting
touch "$work/go"
wait_field "$id" state running
wait_until "it was heard" says "$id" "ready: 0"
cancel "$id"
ends "$id" cancelled

echo "-- gpumux-burn does so too"
id=$(submit "{\"kind\": \"service\", \"devices\": 1, \"quota\": \"2g\", \"ready\": \"client\",
    \"command\": [\"$GPUMUX_BUILD/workloads/gpumux-burn\", \"--service\", \"--rate\", \"50\",
    \"--kernel-ms\", \"1\"]}")
wait_field "$id" state running
cancel "$id"
ends "$id" cancelled
stop
