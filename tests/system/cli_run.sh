#!/bin/bash
# gpumux run: output, input, signals, exit codes, and a restart of gpumux in the middle.
. "$(dirname "$0")/lib.sh"
start --emulate 1xT4

run() { "$gpumux" run -d 0 "$@"; }
err_has() { grep -q -- "$1" "$work/err" || fail "'$1' is not in: $(cat "$work/err")"; }

say output and exit codes
exits 0 run -- sh -c 'echo out; echo err >&2' < /dev/null
[ "$(cat "$work/out")" = out ] || fail "standard output: $(cat "$work/out")"
[ "$(cat "$work/err")" = err ] || fail "standard error: $(cat "$work/err")"
exits 0 run -- printf 'a\0b\n\n c' < /dev/null
printf 'a\0b\n\n c' | cmp - "$work/out" || fail "bytes were changed"
exits 7 run -- sh -c 'exit 7' < /dev/null
exits 137 run -- sh -c 'kill -KILL $$' < /dev/null
err_has 'signal 9'
exits 127 run -- no-such-command-anywhere < /dev/null
err_has no-such-command-anywhere
exits 2 run --no-such-option -- true
exits 2 run
exits 0 run --name x echo --name y < /dev/null
[ "$(cat "$work/out")" = "--name y" ] || fail "options after the command are the command's"

say input
head -c 1000000 /dev/urandom > "$work/random"
run -- cat < "$work/random" | cmp - "$work/random" || fail "input did not come out again"
printf 'no newline' | run -- cat > "$work/out"
[ "$(cat "$work/out")" = "no newline" ] || fail "$(cat "$work/out")"
exits 0 run --no-stdin -- sh -c 'if read -r x; then exit 9; fi' <<< text

say environment and directory
mkdir "$work/d"
cd "$work/d"
mine='of my own' exits 0 run -- sh -c 'pwd; echo "$mine"' < /dev/null
[ "$(cat "$work/out")" = "$work/d"$'\n'"of my own" ] || fail "$(cat "$work/out")"
mine=x exits 0 run --export none -e other=1 -- sh -c 'echo "$mine,$other,${PATH:+path}"' < /dev/null
[ "$(cat "$work/out")" = ",1,path" ] || fail "$(cat "$work/out")"
cd /

# begin COMMAND...: runs it in the background, until its first line of output.
begin() {
    : > "$work/out"
    "$gpumux" run -d 0 --grace 60s -- "$@" < /dev/null > "$work/out" 2> "$work/err" &
    client=$!
    wait_until "the command has begun" test -s "$work/out"
}
# ended CODE: expects this exit code of the command begun.
ended() {
    local got=0
    wait "$client" || got=$?
    [ "$got" = "$1" ] || fail "exit code $got instead of $1: $(cat "$work/err")"
}

say signals
begin sh -c 'trap "echo usr1" USR1; trap "exit 5" TERM; echo begun; while :; do sleep 0.02; done'
kill -USR1 "$client"
wait_until "the signal has come" grep -q usr1 "$work/out"
kill -TERM "$client"
ended 5
begin sh -c 'trap "echo asked; exit 0" TERM; echo begun; while :; do sleep 0.02; done'
kill -INT "$client"
ended 130
grep -q asked "$work/out" || fail "it was not asked to end"
begin sh -c 'trap "echo asked" TERM; echo begun; while :; do sleep 0.02; done'
kill -INT "$client"
wait_until "it was asked" grep -q asked "$work/out"
kill -INT "$client"
ended 137

say waiting
"$gpumux" run -d 5 -- true < /dev/null 2> "$work/err" &
client=$!
wait_until "it says why it waits" grep -q 'waits: .*5 devices' "$work/err"
kill -INT "$client"
ended 130

say a reader that leaves
ended_cancelled() {
    [ "$("$ask" -f <("$gpumux" ps -a --name yes -o json) 'workloads[0].state')" = cancelled ]
}
run -q -- yes < /dev/null 2> /dev/null | head -n 1 > "$work/out" || true
wait_until "what nobody reads is cancelled" ended_cancelled

say a restart in the middle
for how in crash stop; do
    rm -f "$work"/go*
    begin sh -c "echo 1; until [ -e $work/go1 ]; do sleep 0.02; done
        echo 2; until [ -e $work/go2 ]; do sleep 0.02; done; echo 3; exit 6"
    $how
    touch "$work/go1"
    start --emulate 1xT4
    wait_until "output goes on" grep -q 2 "$work/out"
    touch "$work/go2"
    ended 6
    [ "$(tr '\n' ' ' < "$work/out")" = "1 2 3 " ] || fail "output after $how: $(cat "$work/out")"
done

say a gpumux that is away
begin sh -c "echo 1; until [ -e $work/go3 ]; do sleep 0.02; done"
"$gpumux" run -q -d 0 -- sh -c "until [ -e $work/go3 ]; do sleep 0.02; done" < /dev/null \
    2> "$work/quiet" &
quiet=$!
both_run() { [ "$("$gpumux" ps --state running -q | wc -l)" = 2 ]; }
wait_until "the quiet one runs" both_run
crash
wait_until "run says what it waits for" grep \
    -q "no answer from $GPUMUX_SOCKET: waiting until gpumux is back" "$work/err"
start --emulate 1xT4
kill -STOP "$daemon_pid"
"$gpumux" submit -d 0 -- true > "$work/id" 2> "$work/submit" &
submitter=$!
wait_until "submit says what it waits for" \
    grep -qE "no answer from $GPUMUX_SOCKET: waiting until [0-9]{2}:[0-9]{2}:[0-9]{2}\$" \
    "$work/submit"
kill -CONT "$daemon_pid"
wait "$submitter" || fail "submit failed: $(cat "$work/submit")"
ends "$(cat "$work/id")" succeeded
touch "$work/go3"
ended 0
wait "$quiet" || fail "the quiet one failed: $(cat "$work/quiet")"
[ ! -s "$work/quiet" ] || fail "--quiet, and yet: $(cat "$work/quiet")"
