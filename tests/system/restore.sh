#!/bin/bash
# A state restored from a copy, by the commands of docs/operate.md: workloads from before the copy
# are known again, later ones are not, and their processes are ended. Also the way back to an older
# version, with the copy made by an upgrade.
. "$(dirname "$0")/lib.sh"
: "${GPUMUX_SOURCE:?set it to the top of the tree}"
command -v sqlite3 > /dev/null || skip "sqlite3 is not installed"

# page_commands WORD: prints the lines of the page's block that contains WORD, for this test's
# directories. The test does not stop or start the service and installs no packages.
page_commands() {
    awk -v word="$1" '
        /^```sh$/ { inside = 1; text = ""; next }
        /^```/ { if (inside && index(text, word)) printf "%s", text; inside = 0; next }
        inside && !/^(systemctl|apt) / { text = text $0 "\n" }' "$GPUMUX_SOURCE/docs/operate.md" \
        | sed -E -e "s|/var/lib/gpumux|$state|g" -e "s|/var/backups|$work|g" \
            -e "s|^gpumux state [a-z]+|& --state $state|"
}
follow_page() {
    local commands
    commands=$(page_commands "$1")
    [ -n "$commands" ] || fail "docs/operate.md has no block with $1"
    (cd "$work" && PATH=$(dirname "$gpumux"):$PATH bash -euo pipefail -c "$commands") \
        > "$work/said" 2>&1 \
        || fail "$(cat "$work/said")"
}

# Sleep times that no other test uses.
runs_s=8$$ after_s=9$$

start --without-devices
before=$(submit '{"name":"before","command":["true"]}')
ends "$before" succeeded
runs=$(submit '{"name":"runs","command":["sleep","'$runs_s'"]}')
wait_field "$runs" state running
follow_page 'state backup'
[ "$(stat -c %a "$work/gpumux.db")" = 600 ] || fail "others may read the copy"
after=$(submit '{"name":"after","command":["sleep","'$after_s'"]}')
wait_field "$after" state running
# Commands that follow events, at a later revision than the copy reaches in this test.
node=$(api GET /v1/nodes 'nodes[0].name')
for _ in {1..30}; do
    api POST "/v1/nodes/$node/drain" > /dev/null
    api POST "/v1/nodes/$node/undrain" > /dev/null
done
"$gpumux" wait "$runs" > "$work/waited" 2> "$work/wait.err" &
waiter=$!
"$gpumux" events -f > "$work/followed" 2> "$work/events.err" &
follower=$!
watchers() {
    [ "$(curl -s --unix-socket "$GPUMUX_SOCKET" http://gpumux/metrics \
        | awk '$1 == "gpumux_http_streams" { print $2 }')" = 2 ]
}
wait_until "both follow" watchers
stop

follow_page 'what is wrong with the current database'
[ "$(stat -c %a "$state/gpumux.db")" = 600 ] || fail "others may read the state"
start --without-devices
has "$before" state succeeded || fail "what had ended before the copy is not known"
wait_field "$runs" state running
[ "$(field "$runs" attempt)" = 1 ] \
    || fail "what ran all the time was started again: $(show "$runs")"
wait_until "what came after the copy is ended" no_process "^sleep $after_s\$"
pgrep -f "^sleep $runs_s\$" > /dev/null || fail "what ran before the copy was ended"
status=0
wait "$follower" || status=$?
[ $status = 1 ] || fail "events -f went on after a restore: $status"
grep -qE 'revision [0-9]+ is in the future: the newest is [0-9]+ .* watch from revision' \
    "$work/events.err" \
    || fail "$(cat "$work/events.err")"
cancel "$runs"
ends "$runs" cancelled
status=0
wait "$waiter" || status=$?
[ $status = 1 ] && grep -q cancelled "$work/waited" \
    || fail "wait, after a restore: $status $(cat "$work/wait.err")"
stop

# Two upgrades made a copy each; the layout of the second is too new for this version.
cp "$work/gpumux.db" "$state/gpumux.db.v1.backup"
cp "$state/gpumux.db" "$state/gpumux.db.v10.backup"
sqlite3 "$state/gpumux.db" 'PRAGMA user_version = 1000000'
"$gpumux" up --state "$state" --without-devices > "$work/said" 2>&1 \
    && fail "it took a state that it does not know"
grep -q 'written by a newer gpumux' "$work/said" || fail "$(cat "$work/said")"
follow_page 'gpumux.db.v*.backup'
start --without-devices
has "$runs" state cancelled || fail "it went back to another copy than the last: $(show "$runs")"
stop
