# lab.sh: sourced by scripts that measure or test protection on a GPU. Needs `here` (the source
# tree), `bundle` (if empty: the newest one of `make bundle`) and `out`; sets `root`, the unpacked
# bundle, and `work`. Processes and files that the caller leaves behind are removed when it exits.
# shellcheck disable=SC2012
[ -n "$bundle" ] || bundle=$(ls -t "$here"/dist/gpumux-*.tar.gz 2> /dev/null | head -n 1)
[ -e "$bundle" ] || { echo "protection: no bundle: run make bundle, or give --bundle" >&2; exit 2; }
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d /tmp/gmx.XXXXXX)
# Removes MPS daemons and tasks that a killed part has left. A part of 420 s that is killed 30 s
# later ends within 480.
finish() {
    local status=$?
    trap - EXIT
    [ ! -d "$work/w" ] || GPUMUX_WORK=$work/w timeout -k 5 25 python3 "$here/bench/gpu/lab.py" \
        || true
    rm -rf "$work"
    exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
mkdir "$work/w"
if [ -d "$bundle" ]; then
    root=$(cd "$bundle" && pwd)
else
    tar -C "$work" -xzf "$bundle"
    root=$(echo "$work"/gpumux-*)
fi
export GPUMUX_WORK=$work/w GPUMUX_ROOT=$root GPUMUX_TREE=$here GPUMUX_OUT=$out PYTHONUNBUFFERED=1
