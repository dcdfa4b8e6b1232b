#!/bin/bash
# gpumux load as a command: what it counts, against a server that stalls, fails, streams or ends.
# Bounds on latencies hold on a busy machine too: a slow machine only adds latency.
. "$(dirname "$0")/lib.sh"

command -v jq > /dev/null || skip "jq is not installed"
server=$GPUMUX_BUILD/tests/system/load_server
json=$work/result.json

# serve OPTION...: starts a server in the background and sets its pid, and its port or "ready".
serve() {
    (cd "$work" && exec "$server" "$@") > "$work/port" &
    server_pid=$!
    wait_until "the server listens" test -s "$work/port"
    port=$(cat "$work/port")
}
# end_server: ends the server.
end_server() {
    kill -KILL "$server_pid"
    wait "$server_pid" 2> /dev/null || true
    rm -f "$work/port"
}
# load CODE OPTION...: runs gpumux load; every request that was due was answered or failed.
load() {
    exits "$1" "$gpumux" load "${@:2}" --json "$json"
    holds '.due == .answered + .failed and .sent <= .due'
    holds '.failed == ([.failed_by_cause[]] | add) and .latency.count == .answered'
}
# holds CONDITION: a condition on the results holds.
holds() { jq -e "$1" "$json" > /dev/null || fail "not so: $1: $(head -c 1500 "$json")"; }

say "wrong options are refused"
for wrong in '' 'localhost' 'https://a/' 'a:1' 'a:1 --rate 0' 'a:1 --rate x' 'a:1 -r 5 -a soon' \
    'a:1 -r 5 -s x' 'a:1 -r 5 -n 0' 'a:1 -r 5 -c 0' 'a:1 -r 5 --slo p99' 'a:1 -r 5 --binary' \
    'a:1 -r 5 --oip m' 'a:1 -r 5 --oip m --tensor x' 'a:1 -r 5 -H x' 'a:1 -r 5 --speed 2' \
    'a:1 -r 5 -t 0' 'a:1 b:2 -r 5' 'a:1 -r 5 --queue 0' \
    'a:1 -r 5 -X get' 'a:1 -r 5 -X HEAD' 'a:1 -r 5 --seed -1'; do
    # shellcheck disable=SC2086
    exits 2 "$gpumux" load $wrong
done
exits 5 "$gpumux" load "unix:$work/none" --rate 1
said 'cannot connect to .*/none'
exits 1 "$gpumux" load localhost:1 -a "trace:$work/none.csv"
said 'none.csv'

serve
at=127.0.0.1:$port
say "a server that answers"
load 0 "$at/" --rate 1000 --requests 200 --slo 'p50<=30s,p99<=60s' --svg "$work/load.svg"
said '^requests  200 due, 200 sent, 200 answered, 0 failed'
said 'slo .*p50 within 30.00 s: met, 100.000 %'
said '^latency '
holds '.due == 200 and .answered == 200 and .bytes == 1000 and .statuses == {"200": 200}'
holds '[.latency.buckets[][2]] | add == 200'
holds '[.slices[].due] | add == 200'
grep -q '</svg>' "$work/load.svg"
load 0 "http://$at/" --rate 500 --seconds 1 --warmup 500ms --arrivals uniform
holds '.warmup == 249 and .due >= 500 and .due <= 501 and .measured_s == 1'
load 1 "$at/" --rate 100 --requests 20 --slo 'p99<=0.001us'
holds '.slo[0].met == false and .slo[0].attainment == 0'
load 0 "$at/close" --rate 100 --requests 20
holds '.answered == 20 and .generator.connects >= 20'

say "the body of an inference request"
load 0 "$at/echo" --rate 100 -n 10 --oip net --tensor x:FP32:2x2 --tensor y:INT8:3 --binary
holds '.answered == 10 and .bytes > 10 * (16 + 3 + 100)'
load 0 "$at/echo" --rate 100 -n 10 -d 'four'
holds '.bytes == 40'
head -c 300000 /dev/zero > "$work/body"
load 0 "$at/echo" --rate 100 -n 10 -d "@$work/body"
holds '.bytes == 3000000'

say "streams"
for path in events chunks; do
    load 0 "$at/$path" --stream --rate 20 -n 6 -c 1
    holds '.chunks >= 12 and .first_chunk.count == 6 and .gap.count == .chunks - 6'
    holds '.gap.max_ms >= 19 and .latency.min_ms >= 39'
done

say "every failure has its cause"
load 1 "$at/status/503" --rate 200 -n 20
holds '.failed_by_cause.status == 20 and .statuses == {"503": 20}'
load 1 "$at/cut" --rate 200 -n 20
holds '.failed_by_cause.broken == 20'
load 1 "$at/garbage" --rate 200 -n 20
holds '.failed_by_cause.protocol == 20'
load 1 "$at/never" --rate 200 -n 20 --timeout 200ms
holds '.failed_by_cause.timeout == 20'
load 1 "$at/never" --rate 200 -n 50 --timeout 500ms -c 1 --queue 5
holds '.failed_by_cause.dropped >= 1 and .failed_by_cause.timeout >= 6 and .failed == 50'

say "traces"
printf 't_s\n5\n5.1\n5.1\n5.2\n' > "$work/times.csv"
load 0 "$at/" -a "trace:$work/times.csv"
holds '.answered == 4 and .measured_s < 0.21'
printf 't_s,mine\n0,1\n10,0\n20,3\n' > "$work/rates.csv"
load 0 "$at/" -a "trace:$work/rates.csv:mine" --rate 300/s --speed 30
holds '.measured_s == 1 and .due > 200 and .due < 400'

say "SIGTERM ends the run with its results"
"$gpumux" load "$at/" --rate 100 --seconds 1h --json "$json" > "$work/out" 2> "$work/err" &
pid=$!
served() { [ "$(find /proc/$pid/fd -lname 'socket:*' 2> /dev/null | wc -l)" -ge 1 ]; }
wait_until "the generator is connected" served
kill -TERM $pid
code=0
wait $pid || code=$?
[ $code -le 1 ] || fail "ended with $code: $(cat "$work/err")"
holds '.due == .answered + .failed and .due < 10000'

say "a server that ends during the run"
"$gpumux" load "$at/" --rate 200 --seconds 1 --json "$json" > "$work/out" 2> "$work/err" &
pid=$!
wait_until "the generator is connected" served
end_server
wait $pid || true
holds '.due == .answered + .failed'
holds '.failed_by_cause | .connect > 0 and .timeout + .status + .protocol + .dropped == 0'

# Coordinated omission: 100 requests are due while the server stalls for a second. Their latencies
# are spread up to that second, also when all of them wait for one connection.
for connections in 128 1; do
    say "a stall of one second, $connections connections"
    serve --stall 50 1000
    load 0 "127.0.0.1:$port/" --rate 100 --arrivals uniform --seconds 2 -c $connections
    above() { jq "[.latency.buckets[] | select(.[0] >= $1) | .[2]] | add // 0" "$json"; }
    for least in '50 85' '350 55' '650 25' '950 1'; do
        read -r ms count <<< "$least"
        [ "$(above "$ms")" -ge "$count" ] \
            || fail "only $(above "$ms") requests took $ms ms or more, not $count"
    done
    holds '.due >= 199 and .answered == .due and .latency.p50_ms < 900'
    end_server
done

say "a unix socket"
serve --unix "$work/server.sock"
load 0 "unix:$work/server.sock:/" --rate 200 -n 50
holds '.answered == 50'
end_server
