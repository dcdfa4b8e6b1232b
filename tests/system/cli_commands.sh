#!/bin/bash
# The client commands with a daemon: output, changes and exit codes.
. "$(dirname "$0")/lib.sh"
stage_build

say not up
exits 5 "$gpumux" ps
said 'gpumux up'
exits 5 "$gpumux" submit -- true
exits 2 "$gpumux" up --state "$state" --emulate nonsense
said '--emulate: '
exits 2 "$gpumux" up --state "$state" --emulate 2xT4 --policy nonsense
said 'gpumux, iadeep, mudi'
exits 2 "$gpumux" up --state "$state" --emulate 2xT4 --policy oracle
said "policy: 'oracle' .*gpumux sim"
exits 2 "$gpumux" up --state "$state" --emulate 2xT4 --set without=tuner,nonsense
said "no part 'nonsense'"
exits 2 "$gpumux" up --state "$state" --emulate 2xT4 --set allow_rot=true
exits 2 "$gpumux" up --state "$state" --emulate 2xT4 --set monitor_memory_soft=98
said 'monitor_memory_soft: must not be more than monitor_memory_hard'
exits 2 "$gpumux" up --state "$state" --emulate 2xT4 --listen nonsense:nonsense
said '--listen: an address must be \[HOST:\]PORT'
exits 2 "$gpumux" ps --state running,runing # a typo in one of the states
said "no state 'runing'; the states are: queued, .*, cancelled"
printf 'allowances: {alice: 2, bob: 0.5+1, "@students": 4+x}\n' > "$work/allowances.yaml"
exits 1 "$gpumux" up --state "$state" --emulate 2xT4 --config "$work/allowances.yaml"
said "'4+x' of @students"
exits 2 "$gpumux" up --state "$state" --emulate 2xT4 --config "$work/allowances.yaml" --policy \
    nonsense
if ! [ -e /proc/driver/nvidia/version ]; then
    exits 1 "$gpumux" up --state "$state"
    said '--emulate'
fi
start --emulate 2xT4
exits 1 "$gpumux" up --state "$state" --emulate 2xT4
said 'pid'
[ "$(stat -c %a "$state")" = 711 ] || fail "mode of the state directory"
[ "$(stat -c %a "$state/api.sock")" = 666 ] || fail "mode of the API socket"

say submit
id=$("$gpumux" submit -d 0 --name one -- sh -c 'echo hello; echo oops >&2')
[[ $id =~ ^[0-9]+$ ]] || fail "submit printed $id"
exits 0 "$gpumux" wait "$id"
said "$id one succeeded"
printf 'devices: 0\ncommand: [sh, -c, exit 3]\nname: three\n---\ndevices: 0\ncommand: "true"\n' \
    > "$work/two.yaml"
mapfile -t ids < <("$gpumux" submit "$work/two.yaml")
[ ${#ids[@]} = 2 ] || fail "two workloads gave ${#ids[@]} ids"
exits 1 "$gpumux" wait "${ids[@]}"
said 'failed (exit 3)'
[ "$("$ask" \
    -f <("$gpumux" submit - --quota 3g -o json \
    < <(echo '{"command": ["true"], "name": "merged"}')) 'workloads[0].name')" = merged ] \
    || fail "JSON from standard input"
exits 0 "$gpumux" wait merged
[ "$("$ask" -f <("$gpumux" describe merged -o json) quota_bytes)" = $((3 << 30)) ] \
    || fail "a flag over a file"
exits 2 "$gpumux" submit "$work/two.yaml" --quota 3g
exits 2 "$gpumux" submit --quota lots -- true
said '--quota'
printf 'command: "true"\nquota: lots\n' > "$work/bad.yaml"
exits 2 "$gpumux" submit "$work/bad.yaml"
said "submit: $work/bad.yaml: quota: line 2: "
exits 2 "$gpumux" submit --quota 512k -- true
said 'quota: must be at least 1 MiB, not 524288 bytes'
exits 2 "$gpumux" submit -d 0 --share 50 -- true
said 'devices: must not be 0 with a share'
exits 2 "$gpumux" submit --dry-run -d 0 --quota 8g -- true
said 'devices: must not be 0 with a quota'
sed -i 2d "$work/bad.yaml"
exits 2 "$gpumux" submit "$work/bad.yaml" --share-max lots
said 'submit: --share-max: [^/]*$'
exits 1 "$gpumux" submit true
said "a command goes after '--'"
exits 2 "$gpumux" submit - <<< '{"comand": ["true"]}'
said 'command'
exits 0 "$gpumux" submit --dry-run -d 2 --quota 1g -- true
said 'would run on'
exits 6 "$gpumux" submit --dry-run -d 3 -- true
said 'would never start here: 3 devices on one node requested'
exits 6 "$gpumux" submit --dry-run -d 3 -o json -- true
exits 0 "$gpumux" submit --dry-run --share 50 -- true
said '^gpumux: share 50 without a quota: the workload gets a device of its own; give --quota '\
'to share a device$'
exits 0 "$gpumux" submit --dry-run -q --share 50 -- true
[ -s "$work/err" ] && fail "submit -q warns: $(cat "$work/err")"
exits 0 "$gpumux" submit --dry-run --quota 1g --share 50 -- true
[ -s "$work/err" ] && fail "a share with a quota is warned of: $(cat "$work/err")"
exits 0 "$gpumux" run --share-min 20 -- true
said '^gpumux: share 20 without a quota'
exits 0 "$gpumux" submit --dry-run --quota 1m -- true
said '^gpumux: quota 1 MiB: a CUDA context alone takes 600 MiB'
exits 0 "$gpumux" submit --key twice -d 0 -- true
[ -s "$work/err" ] && fail "a new key is told of: $(cat "$work/err")"
taken=$(cat "$work/out")
exits 0 "$gpumux" submit --key twice -d 0 -- false
said '^gpumux: --key twice was used before: these are the ids of the first submission$'
[ "$(cat "$work/out")" = "$taken" ] || fail "a key was taken twice"
exits 0 "$gpumux" submit -q --key twice -d 0 -- false
[ -s "$work/err" ] && fail "submit -q tells of a key: $(cat "$work/err")"
exits 0 "$gpumux" submit --array 2 --name never --quota 500g -- true
said 'waits: 500.0 GiB requested, more than any device has'
[[ $(wc -l < "$work/out") = 2 && $(wc -l < "$work/err") = 1 ]] \
    || fail "not two ids and a reason: $(cat "$work/out" "$work/err")"
exits 0 "$gpumux" submit -q --name never --quota 500g -- true
[ -s "$work/err" ] && fail "submit -q tells a reason"
"$gpumux" wait never 2> "$work/waits" & waits=$!
"$gpumux" logs -f never 2> "$work/follows" & follows=$!
wait_until "wait tells why" grep -q 'waits: 500.0 GiB requested, more than any device has' \
    "$work/waits"
wait_until "logs -f tells why" grep -q 'waits: 500.0 GiB requested, more than any device has' \
    "$work/follows"
"$gpumux" ps -q --name never | xargs "$gpumux" cancel
wait "$waits" && fail "wait of what was cancelled"
wait "$follows" || true
exits 0 "$gpumux" submit --dry-run --array 3 -- true
said 'would run on'
said 'would not start now: '
[ -z "$(sed -n 's/.*would run on//p' "$work/out" | sort | uniq -d)" ] \
    || fail "a device is promised twice"
exits 3 "$gpumux" submit --dry-run --after 99999 -- true
said 'there is no workload 99999'
exits 3 "$gpumux" submit --after nosuch -- true
said nosuch
first=$("$gpumux" submit -d 0 --key once -- true)
[ "$("$gpumux" submit -d 0 --key once -- true)" = "$first" ] || fail "the same key was taken twice"

say looking
exits 0 "$gpumux" ps
said '^ID  *NAME  *KIND  *STATE'
[ "$("$gpumux" ps -q --name one)" = "$id" ] || fail "ps by name"
[ "$("$ask" -f <("$gpumux" ps -o json --state failed) 'workloads[].name')" = three ] \
    || fail "ps by state"
grep -q "^- id: $id" <("$gpumux" ps -a -o yaml) || fail "ps as YAML"
# Six hundred workloads that never run, because the test is about lists.
hold=$("$gpumux" submit -d 0 --name hold -- sleep 1000)
for _ in 1 2 3; do
    "$gpumux" submit -d 0 --array 200 --name many --after hold -- true > /dev/null
done
[ "$("$gpumux" ps -a -q --name many | wc -l)" = 600 ] || fail "ps does not turn pages"
exits 0 "$gpumux" cancel "$hold" --grace 0s
exits 1 "$gpumux" wait -q many --timeout 60s
exits 0 "$gpumux" describe "$id"
said 'the workload has no device'
said 'exit 0'
exits 3 "$gpumux" describe nobody
exits 3 "$gpumux" explain nobody
exits 3 "$gpumux" describe -o json nobody "$id" # although one operand exists
exits 1 "$gpumux" explain "$id"
said "the workload has ended"
exits 3 "$gpumux" logs 999999
[ "$("$gpumux" logs "$id" 2> /dev/null)" = hello ] || fail "logs"
[ "$("$gpumux" logs --stderr "$id" 2>&1)" = oops ] || fail "logs --stderr"
grep -qE '^20[0-9-]+T[0-9:.]+Z hello$' <("$gpumux" logs --timestamps --stdout "$id") \
    || fail "timestamps"
spoken=$("$gpumux" submit -d 0 --name spoken -- sh -c '
    for i in 1 2 3 4 5; do echo "line $i"; echo "oops $i" >&2; done
    printf 6; sleep 0.5; printf " six"; until [ -e "$0" ]; do sleep 0.05; done; echo; echo 7' \
        "$work/go")
has_spoken() { "$gpumux" logs "$spoken" 2> /dev/null | grep -q '6 six'; }
wait_until "it has spoken" has_spoken
[ "$("$gpumux" logs -n 2 --stdout spoken)" = $'line 5\n6 six' ] \
    || fail "logs --tail: $("$gpumux" logs -n 2 --stdout spoken)"
[ -z "$("$gpumux" logs --tail 0 spoken 2>&1)" ] || fail "no lines are some"
"$gpumux" logs -f -n 2 --stdout spoken > "$work/tail" &
follower=$!
wait_until "the tail is there" grep -q '6 six' "$work/tail"
touch "$work/go"
wait "$follower"
[ "$(cat "$work/tail")" = $'line 5\n6 six\n7' ] || fail "the tail, followed: $(cat "$work/tail")"
[ "$("$gpumux" logs -n 99 --stderr spoken 2>&1 | wc -l)" = 5 ] || fail "more than there are"
exits 2 "$gpumux" logs --tail few spoken
exits 0 "$gpumux" nodes
said 'Tesla T4\|T4'
node=$("$gpumux" nodes -q)
exits 0 "$gpumux" top --once
said 'DEVICE'
burning=$("$gpumux" submit --name burning -- "$GPUMUX_BUILD/workloads/gpumux-burn" --step-ms 10 \
    --batch 32)
is_fast() { [[ $(field "$burning" usage.samples_per_s) =~ ^[0-9.]*[1-9] ]]; }
wait_until "its speed is known" is_fast
exits 0 "$gpumux" top --once
said 'RAN  *SPEED  *SHARE'
said ' burning .* running .* [0-9.]\+k\?/s '
waiting=$("$gpumux" submit --name waiting --after burning -- true)
note=$(field "$waiting" text)
exits 0 "$gpumux" top --once # not a terminal: no line is cut
said "${note:?}\$"
exits 0 "$gpumux" describe burning
"$gpumux" explain burning | grep -q "runs here" || fail "explain says where it runs"
said 'Uses.*, speed [0-9.]\+k\?/s samples'
mute=$("$gpumux" submit -d 0 --name mute -- sleep 1000)
is_slow() { [[ $(field "$mute" usage) == {* ]] && has "$mute" usage.samples_per_s null; }
wait_until "what it uses is known, but no speed" is_slow
exits 0 "$gpumux" cancel burning mute

say one name for a device
"$gpumux" wait -q burning mute || true
mapfile -t uuids < <(api GET /v1/nodes 'nodes[0].devices[].uuid')
# names ARGUMENT...: the command prints NODE:INDEX, and not even a part of a UUID.
names() {
    exits 0 "$gpumux" "$@"
    said "$node:0"
    ! grep -E "GPU-|${uuids[0]:4:8}|${uuids[1]:4:8}" "$work/out" || fail "a UUID: gpumux $*"
}
# identifies ARGUMENT...: the command prints the UUIDs as well.
identifies() { exits 0 "$gpumux" "$@"; said "$node:0"; said "${uuids[0]}"; }
names submit --dry-run -d 2 --quota 1g -- true
said "would run on $node:0 $node:1$"
identifies submit --dry-run -d 2 --quota 1g -o json -- true
pair=$("$gpumux" submit -d 2 --quota 1g --name pair -- sleep 1000)
wait_field "$pair" state running
names ps
said " $node:0 $node:1 "
names top --once
said " $node:0 $node:1 "
names nodes
names events --since 0
said "device $node:1 is healthy"
names explain pair
for title in ALIKE PD GAIN; do
    said "^DEVICE.* $title "
    said "^$title  *[a-zA-Z]"
done
for command in 'describe pair' 'ps -o wide' 'nodes -o wide' 'describe pair -o json' \
    'explain pair -o json'; do
    identifies $command
done
exits 0 "$gpumux" disable "$node:0" "$node:1"
exits 0 "$gpumux" enable "$node:0" "$node:1"
exits 0 "$gpumux" cancel pair --grace 0s
# A frame on a whole screen, then the key that quits.
TERM=xterm exits 0 timeout "$deadline_s" script -qec "stty rows 24 cols 120; '$gpumux' top" \
    "$work/screen" <<< q
grep -q DEVICE "$work/screen" && grep -q SPEED "$work/screen" \
    || fail "top: $(cat -v "$work/screen")"
# On a terminal a note is cut at the edge; in a pipe the note is complete.
large=$("$gpumux" submit --quota 500g --name large -- true 2> /dev/null)
wait_until "why it waits is known" eval '[ -n "$(field "$large" text)" ]'
for columns in 80 1000; do
    NO_COLOR=1 exits 0 timeout "$deadline_s" script \
        -qec "stty cols $columns; '$gpumux' ps --name large" /dev/null < /dev/null
    ! LC_ALL=C.UTF-8 tr -d '\r' < "$work/out" | grep -E "^.{$((columns + 1))}" \
        || fail "wider than $columns columns"
    [ $columns = 1000 ] || ! grep -F "$(field "$large" text)" "$work/out" \
        || fail "nothing had to be cut"
done
said "$(field "$large" text)"
exits 0 "$gpumux" ps --name large
said "$(field "$large" text)\$"
exits 0 "$gpumux" cancel large
exits 3 "$gpumux" events 999999
exits 3 "$gpumux" events -f 999999
exits 0 "$gpumux" events "$id" -o json
[ "$(jq -r .what "$work/out" | tail -n 1)" = succeeded ] || fail "events: $(cat "$work/out")"
[ "$("$gpumux" events --since 0 -o json | jq -s 'length')" -gt 600 ] || fail "events --since"

say changing
long=$("$gpumux" submit -d 0 --name long -- sleep 1000)
wait_field "$long" state running
exits 124 "$gpumux" wait long --timeout 50ms
"$gpumux" wait long > "$work/waited" &
waiter=$!
"$gpumux" events -f > "$work/followed" &
follower=$!
exits 0 "$gpumux" requeue long
wait_field "$long" attempt 2
wait_field "$long" state running
crash
start --emulate 2xT4
exits 0 "$gpumux" cancel long --grace 0s
got=0
wait "$waiter" || got=$?
[ "$got" = 1 ] || fail "wait for a cancelled one exits with $got"
grep -q 'long cancelled' "$work/waited" || fail "wait over a restart: $(cat "$work/waited")"
wait_until "following goes on over a restart" grep -qE "$long +cancelled" "$work/followed"
kill "$follower"
exits 1 "$gpumux" cancel long
said 'already ended'
# Between two attempts a workload does not run; logs report a workload that never ran, also with -f.
again=$("$gpumux" submit -d 0 --name again -- sleep 1000)
wait_field "$again" state running
exits 0 "$gpumux" drain "$node"
exits 0 "$gpumux" requeue again
wait_field "$again" state queued
has "$again" stopped null && fail "its attempt has ended, and it waits for another"
never=$("$gpumux" submit -d 0 --name never --after again -- true)
exits 1 "$gpumux" logs never
said 'it has not run yet'
exits 0 "$gpumux" cancel again
wait_field "$never" state failed
for follow in '' -f; do
    exits 1 "$gpumux" logs $follow never
    said 'it never ran'
done
exits 0 "$gpumux" undrain "$node"
exits 3 "$gpumux" cancel nobody
"$gpumux" submit -d 0 --array 3 --name half -- sh -c '[ $GPUMUX_ARRAY_INDEX = 0 ] || sleep 1000' \
    > /dev/null
exits 0 "$gpumux" wait 'half[0]'
exits 0 "$gpumux" cancel half --grace 0s # the first element has already ended, which is no error
exits 1 "$gpumux" wait half
"$gpumux" submit -d 0 --name with --after half:ended -- sleep 1000 > /dev/null
for command in cancel explain; do
    exits 1 "$gpumux" $command half
    said 'half: every element has already ended'
done
exits 1 "$gpumux" cancel half with # although the first name needs no action
exits 1 "$gpumux" wait with
said 'cancelled'
# Named twice: the second time the elements have ended since they were listed.
"$gpumux" submit --quota 500g --array 3 --name twice -- true > /dev/null
exits 0 "$gpumux" cancel twice twice
exits 0 "$gpumux" drain "$node"
exits 0 "$gpumux" nodes
said drained
exits 0 "$gpumux" undrain "$node"
exits 3 "$gpumux" drain nowhere

say maintenance
exits 0 "$gpumux" state check --state "$state"
[ "$("$gpumux" state export --state "$state" | jq -r 'select(.record == "workload") | .name' \
    | grep -c '^many')" = 600 ] \
    || fail "state export"
"$gpumux" config default > "$work/config.yaml"
exits 0 "$gpumux" config check "$work/config.yaml"
echo 'polcy: firstfit' >> "$work/config.yaml"
exits 1 "$gpumux" config check "$work/config.yaml"
said 'polcy'
# Options that no daemon accepts are wrong usage.
while read -r line; do
    echo "$line" > "$work/config.yaml"
    exits 1 "$gpumux" config check "$work/config.yaml"
    said "${line%%:*}"
done << 'END'
policy: fastest
policy: oracle
without: everything
without: gate
without: predictor,tuner
allowances: {alice: many}
mps: maybe
END
say settings without effect
# refused TEXT ARGUMENT...: expects a usage error.
refused() { exits 2 timeout "$deadline_s" "$gpumux" "${@:2}"; said "$1"; }
for daemon in up control; do
    refused "only in 'gpumux sim'" $daemon --state "$work/none" --set without=gate
    refused "only in 'gpumux sim'" $daemon --state "$work/none" --set without=tuner
    refused "'firstfit' has no 'matching'" $daemon --state "$work/none" --policy firstfit \
        --set without=matching
done
refused "does not read this key: give the key to 'gpumux control'" node --state "$work/none" \
    --set without=predictor
refused "does not read this key: give the key to 'gpumux control'" node --state "$work/none" \
    --set lease=10s
refused "does not read this key: give the key to 'gpumux node'" control --state "$work/none" \
    --set mps=off
refused "did you mean 'lease'" node --state "$work/none" --set leas=10s
refused "'gpumux control init'" control --state "$work/none" --url https://localhost:7443
refused "--listen has no effect on 'init'" control init --state "$work/none" \
    --url https://localhost:7443 --listen 7443
refused '--name is only for joining' node --state "$work/none" --without-devices --name n1
refused "--ttl belongs to 'create'" token list --ttl 5d
refused "none of these policies has a part 'gate'" sim --policy firstfit --without gate
refused 'combined only with --json' sim --validate h200_train_pairs.csv --policy firstfit
refused 'explain and --out cannot be combined' sim --explain 1 --out "$work/none"

say maintenance
exits 0 "$gpumux" doctor --state "$state"
said 'ok .*gpumux'
said "cgroup  *.*cgroup"
chmod 777 "$state"
exits 1 "$gpumux" doctor --state "$state"
said "chmod 0711"
if [ "$(id -u)" = 0 ]; then
    say another user
    as 65534 "$gpumux" doctor --state "$state" > "$work/out" 2>&1 || true
    said 'ok .*state .* belongs to another user, whose gpumux is up$'
    grep -q chown "$work/out" && fail "doctor takes another's state away: $(cat "$work/out")"
    exits 4 as 65534 "$gpumux" cancel "$("$gpumux" submit -d 0 -- sleep 1000)"
    exits 4 as 65534 "$gpumux" logs "$id"
    exits 4 as 65534 "$gpumux" drain "$node"
else
    skip_part "commands of another user: only root can be one"
fi

say greeting
stop
grep -q "run[s]* on. 'gpumux up --state $state --emulate 2xT4' adopts" "$log" \
    || fail "how to go on is not told: $(tail -n 3 "$log")"
"$gpumux" up --state "$work/a 'b" --without-devices > "$work/greeting" 2>> "$log" &
greeting=$!
wait_until "it greets" grep -q '^  try ' "$work/greeting"
kill "$greeting"
(eval "$(sed -n 's/^  clients *//p' "$work/greeting")"; [ "$GPUMUX_SOCKET" = \
    "$work/a 'b/api.sock" ]) \
    || fail "what clients are told is no line of a shell: $(cat "$work/greeting")"
[ "$(id -u)" != 0 ] || grep -q 'root .*--set allow_root=true' "$work/greeting" \
    || fail "root is not told: $(cat "$work/greeting")"

say control and node apart
"$gpumux" control --state "$work/c" --set beat=100ms --set allow_root=true >> "$log" 2>&1 &
GPUMUX_SOCKET=$work/c/api.sock
wait_until "control is ready" api GET /readyz
"$gpumux" node --state "$work/n" --node-socket "$work/c/node.sock" --emulate 1xT4 \
    --set node_name=apart \
    --set beat=100ms --set allow_root=true >> "$log" 2>&1 &
apart=$!
wait_until "the node has joined" node_joined
[ "$("$gpumux" nodes -q)" = apart ] || fail "nodes: $("$gpumux" nodes)"
exits 0 "$gpumux" run -- sh -c 'echo "$CUDA_VISIBLE_DEVICES"' < /dev/null
said '^GPU-'
"$gpumux" node --state "$work/m" --node-socket "$work/c/node.sock" --without-devices \
    --set node_name=bare \
    --set beat=100ms --set allow_root=true >> "$log" 2>&1 &
second_joined() { "$gpumux" nodes -q | grep -qx bare; }
wait_until "a second node has joined" second_joined
page=$(api GET '/v1/nodes?limit=1' 'nodes[].name,next')
[ "$page" = $'apart\napart' ] || fail "page of nodes: $page"
page=$(api GET '/v1/nodes?limit=1&cursor=apart' 'nodes[].name,next')
[ "$page" = $'bare\nnull' ] || fail "second page of nodes: $page"
kill -KILL "$apart"
wait_until "the health of devices of a node that is not connected is unknown" \
    eval "'$gpumux' nodes | grep -qE '^apart +not connected +unknown '"
