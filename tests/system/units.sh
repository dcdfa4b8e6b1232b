#!/bin/bash
# The units as installed: systemd accepts every line, and they are no more exposed than before. The
# thresholds (tenths; 100: all open) follow from the settings that each unit explains.
set -Eeuo pipefail
: "${GPUMUX_BUILD:?set it to the build that is to be tested}" \
    "${GPUMUX_SOURCE:?set it to the top of the tree}"
command -v systemd-analyze > /dev/null || { echo "systemd-analyze is not installed"; exit 77; }
work=$(mktemp -d /tmp/gmu.XXXXXX)
trap 'rm -rf "$work"' EXIT
fail() { echo "$0: $*" >&2; exit 1; }

DESTDIR='' cmake --install "$GPUMUX_BUILD" --prefix "$work/p" > "$work/install.log" 2>&1 \
    || { cat "$work/install.log"; fail "it cannot be installed"; }

# judge UNIT COMMAND THRESHOLD
judge() {
    local unit=$work/p/lib/systemd/system/$1.service config=/etc/gpumux/gpumux.yaml
    grep -qx "ExecStart=$work/p/bin/gpumux $2 --config $config \$GPUMUX_${2^^}_OPTIONS" "$unit" \
        || fail "$1 does not start the gpumux that was installed: $(grep ExecStart "$unit")"
    grep -qx "EnvironmentFile=-/etc/gpumux/gpumux.env" "$unit" \
        || fail "$1 does not read this machine's options"
    systemd-analyze verify --man=no --recursive-errors=no "$unit" > "$work/said" 2>&1 \
        || fail "$1: $(cat "$work/said")"
    [ ! -s "$work/said" ] || fail "$1: $(cat "$work/said")"
    for page in $(sed -n 's/^Documentation=//p' "$unit"); do
        page=${page#man:}
        [ -f "$work/p/share/man/man1/${page%(1)}.1" ] \
            || fail "$1 names a page that is not installed: $page"
    done
    systemd-analyze security --offline=yes --threshold="$3" --no-pager "$unit" > "$work/said" 2>&1 \
        || fail "$1 is more open than $3 tenths: $(tail -n 1 "$work/said")"
    tail -n 1 "$work/said"
}
judge gpumux up 92
judge gpumux-node node 92
judge gpumux-control control 20

# The check can fail.
sed 's/^KillMode=process/KillMood=process/' "$work/p/lib/systemd/system/gpumux.service" \
    > "$work/broken.service"
systemd-analyze verify --man=no --recursive-errors=no "$work/broken.service" > "$work/said" 2>&1 \
    || true
grep -q KillMood "$work/said" || fail "a line that means nothing is not noticed"
