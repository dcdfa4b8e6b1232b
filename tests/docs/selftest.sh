#!/bin/bash
# Proves that the checks of the documentation can fail: each change to a copy of the tree is
# detected.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copied=(README.md ARCHITECTURE.md CONTRIBUTING.md LICENSE Makefile api bench data deploy docs emu \
    scripts src tests workloads)
failed=0

fresh() {
    rm -rf "${work:?}/tree"
    mkdir "$work/tree"
    (cd "$root" && tar -cf - --exclude corpus "${copied[@]}") | tar -xf - -C "$work/tree"
}
# notices CHECK EXPRESSION FILE: the check must fail after this sed expression edits the file.
notices() {
    cp "$work/tree/$3" "$work/before"
    sed -i -E "$2" "$work/tree/$3"
    cmp -s "$work/before" "$work/tree/$3" \
        && { echo "the edit '$2' changes nothing in $3"; failed=1; }
    if "$here/$1.sh" "$work/tree" > "$work/output" 2>&1; then
        echo "$1.sh did not notice '$2' in $3"
        failed=1
    fi
    cp "$work/before" "$work/tree/$3"
}

fresh
"$here/tables.sh" "$work/tree" || { echo "the tree itself does not pass"; exit 1; }
"$here/links.sh" "$work/tree" || { echo "the tree itself does not pass"; exit 1; }
"$here/commands.sh" "$work/tree" || { echo "the tree itself does not pass"; exit 1; }
notices tables 's/^SPEC_KEY\("retries"/SPEC_KEY("tries"/' src/wire/spec_schema.def
notices tables 's/"lease", CONTROL, "60s"/"lease", CONTROL, "61s"/' src/wire/config.def
notices tables 's/"lease", CONTROL/"lease", NODE/' src/wire/config.def
notices tables 's/config->linger_us/0/' src/node/protect/protect.c
notices tables '/^CONFIG_PAIRS/d' src/wire/config.def
notices tables '/^ENVIRONMENT\(GPUMUX_NODE/d' src/node/attempt/environment.def
notices tables 's/"GPUMUX_LINGER_US"/"GPUMUX_LINGER"/' src/shim/life/client.c
notices tables 's/^EVENT\(placed/EVENT(put/' src/cluster/events.def
notices tables 's/QUEUE_FULL, 8, 429/QUEUE_FULL, 8, 430/' api/errors.def
notices tables 's/gpumux_store_bytes/gpumux_store_size/' src/control/nodes.c
notices tables 's/^cli\/maintain\/state.c: .*//' tests/tidy/edges.txt
notices tables 's/^policy: .*/policy: base/' tests/tidy/edges.txt
notices tables 's/gpumux_quota_bytes\(/gpumux_memory_bytes(/' src/client/gpumux.h
notices tables '/^\| `gpumux_uptime_seconds/d' docs/operate.md
notices tables '/^\| .services.csv/p' data/README.md
notices tables 's/>12.0 min</>12.1 min</' docs/images/sim-times.svg
notices tables 's/^(2.00  gpumux     18.6 min)    12.0/\1    12.1/' docs/simulate.md
# shellcheck disable=SC2016
notices tables 's/`on_node_lost`/`node_lost`/' docs/submit.md
notices links 's/\(docs\/submit.md\)/(docs\/submitting.md)/' README.md
notices links 's/docs\/states.md/docs\/submit.md/g' README.md
# Commands that no test runs: a block, a language, a sentence, a row; a test that does not exist,
# skips blocks, or is not registered.
notices commands '0,/^```sh run/s/^```sh run/```sh/' docs/security.md
notices commands '0,/^```sh run/s/^```sh run/```/' docs/first-cluster.md
notices commands '0,/^```sh run/s/^```sh run/```text/' docs/troubleshooting.md
notices commands '0,/^<!-- run by system.machine -->/s///' docs/install.md
notices commands '0,/^<!-- run by .*/s//<!-- run by system\/lifecycle -->/' docs/install.md
notices commands '0,/^<!-- run by .*/s//<!-- run by make demo -->/' docs/install.md
notices commands '$s/$/ Or `gpumux top --interval 2`./' docs/security.md
notices commands '$s/$/ Or `token revoke --force`./' docs/operate.md
notices commands 's/`gpumux logs ID --stderr`/`gpumux logs ID --tail`/' docs/troubleshooting.md
notices commands '/all_followed/d' tests/system/machine.sh
notices commands '/page_block/d' scripts/deb-test
notices commands '/system.machine/d' tests/system/CMakeLists.txt
exit $failed
