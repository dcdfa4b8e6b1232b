#!/bin/bash
# preload_file.sh HOST: the shim through /etc/ld.so.preload, as in a container, in every program
# that starts there. The file is in a private mount namespace: this machine has none.
set -u
host=$1
shim=$GPUMUX_BUILD/lib/libgpumux-cuda.so
if [ "${2:-}" != inside ]; then
    unshare -m true 2> /dev/null || { echo "skipped: no mount namespaces here"; exit 77; }
    exec unshare -m "$0" "$host" inside
fi
dir=$(mktemp -d)
trap 'umount -l /etc; rm -rf "$dir"' EXIT
# Programs need of /etc what they find names and libraries with.
mkdir "$dir/etc"
cp -a /etc/passwd /etc/group /etc/nsswitch.conf /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d \
    "$dir/etc" 2> /dev/null
echo "$shim" > "$dir/etc/ld.so.preload"
mount --bind "$dir/etc" /etc \
    || { echo "skipped: nothing can be mounted here"; trap 'rm -rf "$dir"' EXIT; exit 77; }

export XDG_RUNTIME_DIR=$dir GPUMUX_EMU_DEVICES=H200:24g LD_LIBRARY_PATH=$GPUMUX_BUILD/emu
unset GPUMUX_EMU CUDA_VISIBLE_DEVICES GPUMUX_REGISTER GPUMUX_DISABLE GPUMUX_QUOTA_BYTES \
    GPUMUX_SHIM_DEBUG LD_PRELOAD
quota=$(((600 + 64) << 20)) # and a context's cost
. "$(dirname "$0")/expect.sh"

expect "it is in every process" 0 grep -q libgpumux-cuda.so /proc/self/maps
expect "a shell and its children" 0 sh -c 'ls / | sort | tail -n 1 > /dev/null'
expect "the calls are the shim's" 0 "$host" lookups
expect "a quota" 0 env GPUMUX_QUOTA_BYTES=$quota "$host" quota
expect "forks" 0 env GPUMUX_QUOTA_BYTES=$quota "$host" forks
expect "switched off" 0 env GPUMUX_DISABLE=1 GPUMUX_QUOTA_BYTES=$quota "$host" disabled
expect "in both ways at once" 0 env LD_PRELOAD="$shim" GPUMUX_QUOTA_BYTES=$quota "$host" quota
echo "$checks checks, $failures failures"
[ "$failures" = 0 ]
