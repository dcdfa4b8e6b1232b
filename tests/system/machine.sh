#!/bin/bash
# The root commands of docs/ for administrators, unchanged, on separate machines: installation from
# source, services, a cluster of two machines, backup and restore, a new authority.
#
# A machine is this one's file system with its own writes on top, and a stand-in for systemctl; the
# machines share a network of their own. All of it ends with this script.
if [ "${1:-}" != --inside ]; then
    [ "$(id -u)" = 0 ] || { echo "needs root: it makes namespaces and mounts in them"; exit 77; }
    unshare --net --mount --pid true 2> /dev/null \
        || { echo "namespaces cannot be made here"; exit 77; }
    # Removed here, outside of the mount namespace.
    roots=$(mktemp -d /tmp/gmm.XXXXXX)
    status=0
    unshare --net --mount --propagation private --pid --fork --kill-child --mount-proc "$0" \
        --inside "$roots" || status=$?
    rm -rf --one-file-system "$roots"
    exit $status
fi
roots=$2
. "$(dirname "$0")/lib.sh"
: "${GPUMUX_SOURCE:?set it to the top of the tree}"
[ "$GPUMUX_BUILD" = "$GPUMUX_SOURCE/build/release" ] \
    || skip "this is not the build that make install installs"
cd "$GPUMUX_SOURCE"
. tests/docs/follow.sh
runner='system/machine'

mount -t tmpfs tmpfs "$roots"

# machine NAME: makes a root in $roots/NAME.
machine() {
    local root=$roots/$1 own=$roots/$1.own
    mkdir -p "$root" "$own/upper" "$own/work"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$own/upper,workdir=$own/work" "$root" \
        2> /dev/null \
        || skip "overlay mounts cannot be made here"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mount -t tmpfs tmpfs "$root/run"
    if [ ! -e "$root$GPUMUX_SOURCE/Makefile" ]; then
        mkdir -p "$root$GPUMUX_SOURCE" # in a /tmp of the machine itself
        mount --bind "$GPUMUX_SOURCE" "$root$GPUMUX_SOURCE"
    fi
    rm -rf "$root/var/lib/gpumux" "$root/etc/gpumux" "$root/usr/local" "$root/opt/gpumux"
    mkdir -p "$root/usr/local/sbin" "$root/usr/local/bin" "$root/var/backups"
    install -m 755 tests/system/systemctl.pl "$root/usr/local/sbin/systemctl"
    echo "127.0.0.1 localhost gpu-control.example" > "$root/etc/hosts"
    sed -i '/^gpumux:/d' "$root/etc/group" "$root/etc/gshadow"
}
# on MACHINE COMMANDS: runs them as root there, at the top of the tree.
on() {
    env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin LANG=C.UTF-8 \
        STAND_IN_SYSTEMCTL="$(command -v systemctl || true)" STAND_IN_OPTIONS="${options[$1]}" \
        unshare --uts chroot "$roots/$1" bash -euo pipefail -c \
        "echo $1 > /proc/sys/kernel/hostname; cd '$GPUMUX_SOURCE'; $2" < /dev/null
}
# follow MACHINE PAGE TEXT [SED]: runs the block of the page that contains TEXT. The output is in
# $work/said.
follow() {
    local commands
    commands=$(page_block "$runner" "$2" "$3" | sed -E "${4:-}")
    on "$1" "set -x; $commands" > "$work/said" 2>&1 || fail "$2: $(cat "$work/said")"
}
said() { grep -qE -- "$1" "$work/said" || fail "not said: $1: $(cat "$work/said")"; }
declare -A options=(
    [one]='--emulate 2 --set allow_root=true --set beat=100ms'
    [deciding]='--set allow_root=true'
    [gpus]='--emulate 2 --set allow_root=true --set beat=100ms'
)
# The network has no other hosts, so every page can use its own port.
perl -MSocket -e 'socket(S, PF_INET, SOCK_DGRAM, 0); $up = pack("a16s", "lo", 0x41);
    ioctl(S, 0x8914, $up) or die "lo: $!"'
url=https://gpu-control.example:7443

echo "-- from source, as a service"
machine one
follow one docs/install.md 'make install '
on one 'test -x /usr/local/bin/gpumux && test -x /opt/gpumux/bin/gpumux &&
    test -x /tmp/image/usr/local/bin/gpumux'
# Everything that the pages use, and the targets of their links.
on one 'cd /tmp/image/usr/local && ls lib/gpumux/libgpumux-cuda.so lib/gpumux/emu/libcuda.so.1 \
    lib/gpumux/emu/bin/gpumux-emu-fault share/gpumux/data/h200_train_solo.csv \
    share/gpumux/api/openapi.yaml share/doc/gpumux/docs/../data/README.md \
    share/doc/gpumux/docs/../api/openapi.yaml share/doc/gpumux/docs/images/top.svg' > "$work/said" \
    2>&1 || fail "not installed: $(cat "$work/said")"
follow one docs/install.md 'groupadd'
said 'joined control'
said '^one .*ready'
on one 'test -L /etc/systemd/system/multi-user.target.wants/gpumux.service' \
    || fail "it was not enabled"
on one 'systemd-analyze verify --man=no --recursive-errors=no \
    /usr/local/lib/systemd/system/gpumux.service'
id=$(on one "gpumux submit -q -d 0 -- sleep 1000")
runs() { on one "gpumux ps" | grep -qE "^ *$id .*running"; }
wait_until "a workload runs" runs
follow one docs/install.md 'systemctl restart gpumux'
runs || fail "a restart ended the workload: $(on one 'gpumux ps -a')"

echo "-- backup, upgrade, restore"
follow one docs/operate.md 'state backup'
follow one docs/operate.md 'make install'
runs || fail "an upgrade ended the workload: $(on one 'gpumux ps -a')"
late=$(on one "gpumux submit -q -d 0 -- true")
follow one docs/operate.md 'systemctl stop gpumux'
on one "gpumux describe $late" > "$work/said" 2>&1 && fail "what came after the copy is known"
wait_until "what ran before the copy runs on" runs
on one "gpumux cancel $id; gpumux wait $id || true" > /dev/null
follow one docs/troubleshooting.md 'journalctl'
said 'Active: active'
on one 'systemctl stop gpumux'

echo "-- the bundle"
follow one docs/install.md 'make bundle'
follow one docs/install.md 'systemctl link'
said 'gpumux [0-9]'
[ "$(readlink "$roots/one/etc/systemd/system/gpumux.service")" \
    = /opt/gpumux/lib/systemd/system/gpumux.service ] \
    || fail "the bundle's unit is not linked"
on one "sed -i '/^WantedBy/d' /opt/gpumux/lib/systemd/system/gpumux.service
    systemctl start gpumux; systemctl stop gpumux"
grep -q /opt/gpumux/bin/gpumux "$roots/one/opt/gpumux/lib/systemd/system/gpumux.service" \
    || fail "the unit starts another gpumux"

echo "-- a cluster"
install_gpumux() {
    DESTDIR=$roots/$1 cmake --install "$GPUMUX_BUILD" --prefix /usr/local > /dev/null
}
# line_of: replaces "sha256:…" and "gmj_…" of a page by printed values.
line_of() {
    echo "s/sha256:…/$(grep -o 'sha256:[0-9a-f]*' "$work/said" \
        | tail -n 1)/; s/gmj_…/$(grep -o 'gmj_[0-9a-f]*' "$work/said" | tail -n 1)/"
}
for name in deciding gpus; do machine $name && install_gpumux $name; done
follow deciding docs/install.md 'control init'
follow gpus docs/install.md '--join-only' "$(line_of)"
joined() {
    on gpus 'systemctl status gpumux-node' > "$work/said" 2>&1 \
        && grep -q 'joined control' "$work/said"
}
wait_until "the service says that it joined control" joined
follow deciding docs/install.md 'token create'
said '^gpus .*ready'
id=$(on deciding "gpumux submit -q -d 0 -- sleep 1000")
runs() { on deciding "gpumux ps" | grep -qE "^ *$id .*running"; }
wait_until "a workload runs" runs

echo "-- control on a new machine"
follow deciding docs/operate.md 'state backup'
follow deciding docs/operate.md 'cp -a /etc/gpumux'
on deciding 'systemctl stop gpumux-control; rm -r /var/lib/gpumux /etc/gpumux'
follow deciding docs/operate.md 'cp -a /var/backups/gpumux/tls'
node_ready() { on deciding 'gpumux nodes' | grep -q '^gpus .*ready'; }
wait_until "the node is back by itself" node_ready
wait_until "its workload runs on" runs
[ "$(on deciding "gpumux describe $id -o json" | jq .attempt)" = 1 ] || fail "it was started again"

echo "-- another authority"
follow deciding docs/security.md 'tls.old' 's/\bNAME\b/gpus/'
follow gpus docs/security.md 'node.pem' "$(line_of)"
wait_until "the node is back" node_ready
wait_until "its workload runs on" runs
all_followed "$runner" || fail "a command that no machine was given"
