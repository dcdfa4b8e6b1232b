#!/bin/bash
# The measuring proxy and the readers of metrics pages, with servers that know nothing of gpumux.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
start --emulate 1xT4

# free_port: prints a port that nobody uses now.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'
}
client() { python3 "$here/proxy_client.py" "$@"; }
# serve KIND MEMBERS...: submits the server, with these members of its description; prints its id.
serve() {
    submit "{\"kind\": \"service\", $2, \"command\": [\"python3\", \"$here/proxy_server.py\",
        \"$1\"${3:+, \"$3\"}]}"
}
# companions: prints the pids of this test's companions; other tests have some, too.
companions() {
    local pid
    for pid in $(our_processes); do
        if tr '\0' ' ' < "/proc/$pid/cmdline" | grep -q '^gpumux proxy '; then echo "$pid"; fi
    done 2> /dev/null
}
# latency_is ID LOW HIGH: the latency that the API shows is between these milliseconds.
latency_is() {
    local ms
    ms=$(field "$1" usage.latency_ms)
    awk -v ms="$ms" -v low="$2" -v high="$3" 'BEGIN { exit !(ms >= low && ms <= high) }'
}

say "an unmodified server, kept alive, chunked, posted, pipelined"
port=$(free_port)
url=http://127.0.0.1:$port
id=$(serve http "\"port\": $port, \"proxy\": \"http\", \"slo\": {\"percentile\": 90,
    \"latency\": \"1s\", \"first\": \"10s\", \"between\": \"10s\"}")
wait_field "$id" state running # the proxy listens at once: the program's port decides
[ "$(curl -sf "$url/size/5" "$url/size/5")" = xxxxxxxxxx ] || fail "two requests failed"
[ "$(curl -sf "$url/chunks/3")" = "$(printf 'data: x\n\n%.0s' 1 2 3)" ] || fail "chunks differ"
head -c 3000000 /dev/zero > "$work/zeros"
[ "$(curl -sf --data-binary "@$work/zeros" "$url/")" = 3000000 ] || fail "an upload is not whole"
[ "$(curl -sf "$url/size/9000000" | wc -c)" = 9000000 ] || fail "a download is not whole"
[ "$(curl -sf -H 'Expect: 100-continue' -d abc "$url/")" = 3 ] || fail "100-continue failed"
[ "$(client pipeline "$port" 200)" = 19900 ] || fail "pipelined requests failed"

say "a thousand connections"
client many "$port" 1000

say "latencies arrive as a client's do"
slow() {
    for _ in 1 2 3 4 5 6; do
        curl -sf "$url/slow" "$url/slow" "$url/slow" "$url/slow" > /dev/null || return 1
    done
    latency_is "$id" 49 5000
}
wait_until "the latency is 50 ms" slow

say "a program that closes, and none"
[ "$(curl -s -o "$work/out" -w '%{http_code}' "$url/fail")" = 502 ] || fail "$(cat "$work/out")"
grep -q 'closed the connection before it answered' "$work/out" || fail "$(cat "$work/out")"

say "neither the agent's death nor the companion's end fails a request"
client until "$port" "$work/stop" 2> "$work/failures" &
client_pid=$!
wait_until "requests are under way" test -e "$work/stop.begun"
crash
start --emulate 1xT4
wait_field "$id" state running
has "$id" attempt 1 || fail "it was started again"
touch "$work/stop"
wait "$client_pid" || fail "a request failed: $(cat "$work/failures")"
companion=$(companions)
kill -KILL "$companion"
[ "$(curl -sf --retry 20 --retry-all-errors --retry-delay 1 "$url/size/1")" = x ] ||
    fail "no other companion took the socket"

say "the port is free again after the service"
cancel "$id"
ends "$id" cancelled
exits 7 curl -s "$url/"
[ -z "$(companions)" ] || fail "the companion is left"

say "a program that does not listen"
id=$(submit "{\"kind\": \"service\", \"port\": $port, \"proxy\": \"http\", \"ready\": \"client\",
    \"command\": [\"sleep\", \"1000\"]}")
refused() { [ "$(curl -s -o "$work/out" -w '%{http_code}' "$url/")" = 503 ]; }
wait_until "the proxy answers" refused
grep -q 'does not accept connections' "$work/out" || fail "$(cat "$work/out")"
other=$(serve http "\"port\": $port, \"proxy\": \"http\"")
wait_until "the port is taken" told "cannot listen on port $port" "$other"
cancel "$other"
cancel "$id"
ends "$id" cancelled

say "HTTP/2 by prior knowledge and by upgrade"
id=$(serve h2 "\"port\": $port, \"proxy\": \"http\"")
wait_field "$id" state running
if curl --version | grep -q HTTP2; then
    for way in --http2-prior-knowledge --http2; do
        [ "$(curl -sf $way "$url/")" = hellohellohello ] || fail "curl $way failed"
    done
else
    skip_part "this curl speaks no HTTP/2"
fi
measured_streams() { client streams "$port" 5 && latency_is "$id" 5 5000; }
wait_until "streams are measured" measured_streams
cancel "$id"
ends "$id" cancelled

say "latencies from a metrics page"
port=$(free_port)
id=$(serve metrics "\"port\": $port" "$port")
wait_until "the histogram is read" latency_is "$id" 400 540
cancel "$id"
ends "$id" cancelled
stop
