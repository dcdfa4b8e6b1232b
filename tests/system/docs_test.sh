#!/bin/bash
# Runs every block of the README and of docs/ that is marked ```sh run.
#
# The blocks of a page are one script, in order, in an empty directory, with `set -e`: a failing
# command fails the test, which names its page and line. A page that starts gpumux itself (`gpumux
# up`, or `gpumux control` and nodes) starts its own; other pages find a running one. Both have a
# fresh state directory and emulated devices. DOCS_PAGES=docs/api.md runs only some pages.
. "$(dirname "$0")/lib.sh"
: "${GPUMUX_SOURCE:?set it to the top of the tree}"
for tool in cc cmake curl jq pkg-config; do
    command -v $tool > /dev/null || skip "$tool is not installed"
done
cd "$GPUMUX_SOURCE"
export GPUMUX_EMU_SPEED=20 LC_ALL=C.UTF-8 XDG_CONFIG_HOME=$work/config
pages=${DOCS_PAGES:-README.md docs/*.md}
page_limit_s=60
ran=0

# The `gpumux` of a page is the one under test; its `up` gets a state directory and short beats.
mkdir "$work/bin"
cat > "$work/bin/gpumux" <<END
#!/bin/bash
if [ "\${1:-}" = up ]; then
    exec "$gpumux" "\$@" --state "$state" --set allow_root=true --set beat=100ms \\
        --set backoff_min=20ms
fi
if [ "\${1:-} \${2:-}" = "control init" ]; then
    exec "$gpumux" "\$@" --state "$state"
fi
if [ "\${1:-}" = control ]; then
    exec "$gpumux" "\$@" --state "$state" --set allow_root=true --set backoff_min=20ms
fi
if [ "\${1:-}" = node ]; then
    exec "$gpumux" "\$@" --set allow_root=true --set beat=100ms
fi
exec "$gpumux" "\$@"
END
ln -s "$GPUMUX_BUILD/workloads/gpumux-burn" "$GPUMUX_BUILD/emu/bin/gpumux-emu-fault" "$work/bin/"
chmod 755 "$work/bin/gpumux"

# For pages that compile: an installed libgpumux, and a compiler that adds the sanitizers of the
# library.
cmake --install "$GPUMUX_BUILD" --prefix "$work/installed" --component client > /dev/null
pkg_config_file=$(find "$work/installed" -name gpumux.pc)
export PKG_CONFIG_PATH=${pkg_config_file%/*}
LD_LIBRARY_PATH=$(pkg-config --variable libdir gpumux)
export LD_LIBRARY_PATH
# For pages with programs in Python.
export PYTHONPATH=$GPUMUX_SOURCE/python/src PYTHONDONTWRITEBYTECODE=1
cat > "$work/bin/cc" <<END
#!/bin/sh
exec $(command -v cc) ${GPUMUX_SANITIZE:+-fsanitize=$GPUMUX_SANITIZE} "\$@"
END
chmod 755 "$work/bin/cc"

# After a block that started gpumux, waits until it is ready.
cat > "$work/prelude.sh" <<'END'
set -eo pipefail
trap 'echo "$block: failed: $BASH_COMMAND" >&2' ERR
alive() { kill -0 $!; }
ready() {
    curl -sf --unix-socket "$GPUMUX_SOCKET" http://gpumux/v1/nodes \
        | jq -e '.nodes[0].connected' > /dev/null
}
await() {
    until "${@:-ready}"; do
        alive || { echo "gpumux did not come up" >&2; return 1; }
        sleep 0.02
    done
}
control_ready() { curl -sf --unix-socket "$GPUMUX_SOCKET" http://gpumux/readyz > /dev/null; }
# nodes_ready N: N nodes are connected.
nodes_ready() {
    curl -sf --unix-socket "$GPUMUX_SOCKET" http://gpumux/v1/nodes \
        | jq -e --argjson n "$1" '[.nodes[] | select(.connected)] | length == $n' > /dev/null
}
END

# Another port replaces the page's, which may be in use here.
page_port=7443
port_is_taken() { grep -qi ":$(printf %04x "$1") " /proc/net/tcp /proc/net/tcp6; }
free_port() {
    local port=$((20000 + RANDOM % 10000))
    while port_is_taken $port; do port=$((port + 1)); done
    echo $port
}

# script_of PAGE: prints its runnable blocks.
script_of() {
    awk -v page="$1" '
        /^```sh run$/ { inside = 1; printf "block=\"%s:%d\"\n", page, FNR; next }
        /^```/ { if (inside && starts) print starts; inside = 0; starts = ""; next }
        inside { print }
        inside && /^gpumux up/ { starts = "await" }
        inside && /^gpumux control --.*&$/ { starts = "await control_ready" }
        inside && /--state node.*&$/ {
            starts = "await nodes_ready " (/^gpumux node/ ? nodes : ++nodes)
        }' "$1"
}

for page in $pages; do
    blocks=$(script_of "$page" | sed "s/:$page_port\>/:$(free_port)/g")
    [ -n "$blocks" ] || continue
    state=$work/s$((ran += 1))
    export GPUMUX_SOCKET=$state/api.sock
    sed -i -E "s|--state [^ ]+|--state \"$state\"|g" "$work/bin/gpumux"
    mkdir "$work/here$ran"
    grep -qE '^gpumux (up|control)' <<< "$blocks" || start --emulate 4xH200:24g
    { cat "$work/prelude.sh"; echo "$blocks"; } > "$work/script$ran.sh"
    if ! (cd "$work/here$ran" \
        && PATH=$work/bin:$PATH timeout "$page_limit_s" bash "$work/script$ran.sh" \
        > "$work/output" 2>&1 < /dev/null); then
        cat "$work/output" "$work/here$ran"/*.log >&2 || true
        fail "$page: a command that it shows does not work"
    fi
    [ -z "$daemon_pid" ] || stop
    # shellcheck disable=SC2046
    [ -z "$(our_processes)" ] || kill -KILL $(our_processes) 2> /dev/null || true
    echo "$page: $(grep -c '^block=' <<< "$blocks") blocks"
done
[ $ran -gt 0 ] || fail "no page has a block that can be run"
