#!/bin/bash
# smoke.sh [--bundle TARBALL|DIR] [--out DIR] [--part N]: gpumux on a real GPU, from its bundle
# alone.
#
# Needs only bash and awk: no compiler, no network, no root. Takes at most five minutes:
#   part 1  `gpumux up` finds the GPU; nodes, doctor and version show it
#   part 2  four gpumux-burn tasks run at the same time and succeed; meanwhile `top --once` shows SM
#           activity and memory, afterwards events, describe and logs show the course
# Without --part both run. The bundle defaults to the newest in dist/. The verdict, with the
# machine, the commands and their output, is written to DIR/smoke.json ($OUT, else the current
# folder). GPUMUX_SMOKE_EMULATE=1 tests the script itself on a machine without a GPU.
set -Eeuo pipefail

called_with=$*
here=$(cd "$(dirname "$0")/../.." && pwd)
bundle= out=${OUT:-$PWD} parts='1 2'
while [ $# -gt 0 ]; do
    case $1 in
    --bundle) bundle=$2 ;;
    --out) out=$2 ;;
    --part) parts=$2 ;;
    *) echo "usage: smoke.sh [--bundle TARBALL|DIR] [--out DIR] [--part N]" >&2; exit 2 ;;
    esac
    shift 2
done
# shellcheck disable=SC2012
[ -n "$bundle" ] || bundle=$(ls -t "$here"/dist/gpumux-*.tar.gz 2> /dev/null | head -n 1)
[ -e "$bundle" ] || { echo "smoke: no bundle: run make bundle, or give --bundle" >&2; exit 2; }

work=$(mktemp -d /tmp/gmg.XXXXXX)
mkdir -p "$out"
out=$(cd "$out" && pwd) bundle=$(cd "$(dirname "$bundle")" && pwd)/$(basename "$bundle")
cd "$work" # tasks run in the directory of their submission
daemon=
finish() {
    local status=$?
    trap - EXIT
    if [ -n "$daemon" ]; then
        "$gpumux" cancel --grace 1s burn-1 burn-2 burn-3 burn-4 > /dev/null 2>&1 || true
        kill "$daemon" 2> /dev/null || true
        wait "$daemon" 2> /dev/null || true
    fi
    write_result $status
    rm -rf "$work"
    exit $status
}
trap finish EXIT
trap 'failure="line $LINENO: $BASH_COMMAND"' ERR
failure=
die() { failure=$*; echo "smoke: $*" >&2; exit 1; }

# ---- the result: one JSON document, written with common tools ----

json_text() {
    awk 'BEGIN { ORS = "" } {
        gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); gsub(/\t/, "\\t"); gsub(/\r/, "\\r")
        gsub(/[\001-\037]/, "?"); print (NR > 1 ? "\\n" : "") $0 }'
}
write_result() {
    local file name
    {
        printf '{\n  "result": "%s",\n  "failure": "%s",\n' \
            "$([ "$1" = 0 ] && echo pass || echo fail)" "$(json_text <<< "$failure")"
        printf '  "date": "%s",\n  "seconds": %d,\n  "parts": "%s",\n' "$(date -u +%FT%TZ)" \
            $SECONDS "$parts"
        printf '  "command": "%s",\n' "$(json_text <<< "tests/gpu/smoke.sh $called_with")"
        printf '  "machine": "%s",\n' "$(uname -srm | json_text)"
        printf '  "gpu": "%s",\n' "$(cat "$work/gpu" 2> /dev/null | json_text)"
        printf '  "bundle": "%s",\n  "outputs": {\n' "$(basename "$bundle" | json_text)"
        name=
        for file in "$work"/output/*; do
            [ -f "$file" ] || continue
            [ -z "$name" ] || printf ',\n'
            name=$(basename "$file")
            printf '    "%s": {"command": "%s", "printed": "%s"}' "$name" \
                "$(cat "$work/command/$name" 2> /dev/null | json_text)" "$(json_text < "$file")"
        done
        printf '\n  }\n}\n'
    } > "$work/smoke.json"
    cp "$work/smoke.json" "$out/smoke.json"
    echo "smoke: $([ "$1" = 0 ] && echo passed \
        || echo "failed: $failure"), $SECONDS s, written to $out/smoke.json"
}
# record NAME COMMAND...: runs the command and records its output.
record() {
    local name=$1
    shift
    mkdir -p "$work/output" "$work/command"
    echo "gpumux ${*#"$gpumux"}" | sed 's/^gpumux  */gpumux /' > "$work/command/$name"
    "$@" > "$work/output/$name" 2>&1
}

# wait_until SECONDS WHAT COMMAND...
wait_until() {
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" > /dev/null 2>&1; do
        [ $SECONDS -lt $end ] || die "waited in vain: $what"
        sleep 0.2
    done
}

# ---- the bundle, unpacked ----

if [ -d "$bundle" ]; then
    root=$bundle
else
    tar -C "$work" -xzf "$bundle"
    root=$(echo "$work"/gpumux-*)
fi
gpumux=$root/bin/gpumux
burn=$root/bin/gpumux-burn
export GPUMUX_SOCKET=$work/s/api.sock
options=()
[ "${GPUMUX_SMOKE_EMULATE:-}" != 1 ] || options=(--emulate 1xH200)
{ nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2> /dev/null \
    || echo "none: emulated"; } > "$work/gpu"

node_ready() {
    kill -0 "$daemon" || die "gpumux up ended: $(cat "$work/up.log")"
    "$gpumux" nodes | grep -q ready
}
start() {
    [ -z "$daemon" ] || return 0
    "$gpumux" up --state "$work/s" --set allow_root=true --set beat=500ms "${options[@]}" \
        > "$work/up.log" 2>&1 &
    daemon=$!
    wait_until 60 "gpumux up is ready" node_ready
}

part_1() {
    record version "$gpumux" version
    start
    record nodes "$gpumux" nodes -o wide
    grep -qE 'NVIDIA|H200' "$work/output/nodes" || die "no GPU in: $(cat "$work/output/nodes")"
    record doctor "$gpumux" doctor || true
}

all_running() { [ "$("$gpumux" ps --state running --quiet | wc -l)" = 4 ]; }
busy() {
    record top "$gpumux" top --once
    record nodes_busy "$gpumux" nodes -o json
    grep -qE '(^| )[1-9][0-9]*%' "$work/output/top" || return 1
    awk -F '[:,]' '/"sm_percent"/ { sm = $2 } /"memory_used_bytes"/ && $2 > memory { memory = $2 }
        END { exit !(sm >= 5 && memory > 1000000000) }' "$work/output/nodes_busy"
}
held() {
    record describe "$gpumux" describe burn-1
    grep -q 'enforced' "$work/output/describe"
}
part_2() {
    local i tasks=('20 10 3g 15' '40 20 5g 18' '10 30 2g 12' '60 10 4g 15') sm dram memory seconds
    start
    for i in 1 2 3 4; do
        read -r sm dram memory seconds <<< "${tasks[i - 1]}"
        record "submit-$i" "$gpumux" submit --name "burn-$i" --quota 8g -- "$burn" --sm "$sm" \
            --dram "$dram" \
            --memory "$memory" --step-ms 20 --busy-percent 50 --steps $((seconds * 50))
    done
    wait_until 60 "four tasks run" all_running
    wait_until 10 "it says what holds it" held
    wait_until 30 "SM activity and memory are seen" busy
    record wait "$gpumux" wait --timeout 180s burn-1 burn-2 burn-3 burn-4
    record ps "$gpumux" ps --all -o wide
    record events "$gpumux" events
    record logs "$gpumux" logs burn-1
    [ "$("$gpumux" ps --state succeeded --quiet | wc -l)" = 4 ] \
        || die "not all four succeeded: $(cat "$work/output/ps")"
    [ "$(grep -cw succeeded "$work/output/events")" -ge 4 ] \
        || die "events are missing: $(cat "$work/output/events")"
}

for part in $parts; do "part_$part"; done
cat "$work/output/top" 2> /dev/null || true
