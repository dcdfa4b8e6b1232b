#!/bin/bash
# gpumux state backup: works while gpumux runs, only for the owner, and overwrites a file only on
# request; also its progress on a terminal.
. "$(dirname "$0")/lib.sh"
command -v sqlite3 > /dev/null || skip "sqlite3 is not installed"
command -v script > /dev/null || skip "script is not installed"

# backup STATUS ARGUMENT...: runs the command; its output is left in $work/out and $work/err.
backup() {
    local got=0
    "$gpumux" state backup --state "$state" "${@:2}" > "$work/out" 2> "$work/err" || got=$?
    [ "$got" = "$1" ] || fail "status $got instead of $1: $(cat "$work/err")"
}
said() {
    grep -qF -- "$1" "$work/out" "$work/err" \
        || fail "'$1' is not in: $(cat "$work/out" "$work/err")"
}
no_debris() {
    [ -z "$(find "$work/copies" -name '*.??????*')" ] || fail "left: $(ls "$work/copies")"
}
umask 022
mkdir "$work/copies"
copy=$work/copies/copy.db

echo "-- while gpumux runs"
start --without-devices
for i in 1 2 3; do
    submit '{"name":"w'$i'","command":["sleep","'$$'"],"environment":{"SECRET":"x"}}' > "$work/id"
done
backup 0 "$copy"
said "$copy is sound: 3 workloads"
[ ! -s "$work/err" ] || fail "$(cat "$work/err")"
[ "$(stat -c %a "$copy")" = 600 ] || fail "others may read the copy: $(stat -c %A "$copy")"
no_debris
[ "$(sqlite3 "$copy" 'SELECT count(*) FROM workloads; PRAGMA journal_mode' | tr '\n' ' ')" \
    = "3 delete " ] \
    || fail "the copy is not a database alone"

echo "-- over another file"
before=$(sha256sum < "$copy")
backup 1 "$copy"
said --overwrite
[ "$(sha256sum < "$copy")" = "$before" ] || fail "it was written over"
submit '{"name":"w4","command":["true"]}' > "$work/id"
chmod 644 "$copy"
backup 0 --overwrite "$copy"
said '4 workloads'
[ "$(stat -c %a "$copy")" = 600 ] || fail "others may read the copy: $(stat -c %A "$copy")"
backup 1 --overwrite "$state/gpumux.db"
said 'the state itself'
backup 1 "$work/missing/copy"
said "$work/missing/copy"
backup 2
backup 2 "$copy" "$copy"
exits_2() {
    local got=0
    "$gpumux" state "$@" --state "$state" > "$work/out" 2> "$work/err" || got=$?
    [ $got = 2 ] || fail "state $*: status $got"
}
exits_2 check --overwrite
exits_2 check "$copy"
exits_2 export "$copy"
"$ask" "$GPUMUX_SOCKET" /readyz > /dev/null || fail "gpumux is gone"
stop

echo "-- a large one on a terminal"
sqlite3 "$state/gpumux.db" \
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
    INSERT INTO events SELECT 100000 + i, 1, 0, 0, 0, '', 'large', hex(randomblob(500000)) FROM n"
script -qec "'$gpumux' state backup --state '$state' '$work/copies/large'" "$work/out" > /dev/null \
    < /dev/null
grep -qE '[1-9][0-9]? % of [0-9.]+ MiB copied' "$work/out" || fail "no progress: $(cat "$work/out")"
said 'large is sound: 4 workloads, revision 100040'
rm "$work/copies/large"
backup 0 "$work/copies/large"
[ ! -s "$work/err" ] || fail "progress in a file: $(cat "$work/err")"

echo "-- a signal"
# The signal is pending when the command starts, so that it arrives in the middle at any speed.
blocked='use POSIX; sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGTERM));
    kill TERM => $$; exec @ARGV'
perl -e "$blocked" "$gpumux" state backup --overwrite --state "$state" "$copy" > "$work/out" \
    2> "$work/err" \
    && fail "it went on"
said 'a signal interrupted the backup'
[ "$(sqlite3 "$copy" 'SELECT count(*) FROM workloads')" = 4 ] || fail "the copy from before is gone"
no_debris

echo "-- a full disk"
(ulimit -f 4096; trap '' XFSZ; backup 1 --overwrite "$copy")
said "$copy"
[ "$(sqlite3 "$copy" 'SELECT count(*) FROM workloads')" = 4 ] || fail "the copy from before is gone"
no_debris
