#!/bin/bash
# Services: run until cancelled, restart with a growing delay, become ready by command or port.
. "$(dirname "$0")/lib.sh"
start --emulate 1xT4 --set backoff_max=400ms

echo "-- an exit is a failure, and it is started again"
id=$(submit '{"kind": "service", "command": ["true"]}')
at_attempt() { [ "$(field "$1" attempt)" -ge "$2" ]; }
wait_until "it is tried a fourth time" at_attempt "$id" 4
has "$id" state failed && fail "a service does not end by itself"
# Delays grow: 20, 40, 80 ms … between the end of an attempt and the next placement.
show "$id" | jq -e 'def ms: sub("\\.(?<f>[0-9]+)Z$"; "Z") as $s | ($s | fromdate) * 1000
    + (capture("\\.(?<f>[0-9]+)Z$").f | tonumber);
    [.attempts[1:4], .attempts[0:3]] | transpose | map((.[0].placed | ms) - (.[1].ended | ms))
    | .[0] >= 19 and .[1] >= 39 and .[2] >= 79' > /dev/null || fail "$(show "$id")"
cancel "$id"
ends "$id" cancelled

echo "-- ready by command"
id=$(submit "{\"kind\": \"service\", \"command\": [\"sleep\", \"1000\"],
    \"ready\": {\"command\": [\"test\", \"-e\", \"$work/ready\"]}}")
wait_field "$id" state starting
[ "$(field "$id" text)" = "waits until ready.command succeeds" ] \
    || fail "no note: $(show "$id")"
touch "$work/ready"
wait_field "$id" state running
has "$id" text "" || fail "the note stays: $(show "$id")"
cancel "$id"
ends "$id" cancelled

echo "-- ready by port"
cat > "$work/listen.pl" <<'PERL'
use Socket;
socket(my $s, PF_INET, SOCK_STREAM, 0) or die;
setsockopt($s, SOL_SOCKET, SO_REUSEADDR, 1);
bind($s, sockaddr_in($ARGV[0], INADDR_LOOPBACK)) or die "bind: $!";
select(undef, undef, undef, 0.02) until -e $ARGV[1];
listen($s, 8) or die;
while (accept(my $c, $s)) { close $c }
PERL
port=$((20000 + $$ % 20000))
id=$(submit "{\"kind\": \"service\", \"command\": [\"perl\", \"$work/listen.pl\",
    \"$port\", \"$work/open\"], \"ready\": {\"port\": $port}}")
wait_field "$id" state starting
note="waits until port $port on the node accepts connections"
"$gpumux" ps | grep -qE "^ *$id .*starting.* $note" \
    || fail "no note: $("$gpumux" ps)"
touch "$work/open"
wait_field "$id" state running

echo "-- it outlives a crash"
attempt=$(field "$id" attempt)
crash
start --emulate 1xT4 --set backoff_max=400ms
wait_field "$id" state running
[ "$(field "$id" attempt)" = "$attempt" ] || fail "it was started again"
cancel "$id"
ends "$id" cancelled
stop
