#!/bin/bash
# The shim in processes with another C library than this machine's: glibc 2.31 and 2.41, bound
# lazily and at start, without libpthread and with it; musl; and 32-bit programs, which cannot load
# the shim. The test skips libraries that the mirror lacks, and itself if the mirror lacks them all.
set -u
here=$(dirname "$0")
shim=$GPUMUX_BUILD/lib/libgpumux-cuda.so
cache=$GPUMUX_BUILD/foreign
cc=${CC:-cc}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export GPUMUX_QUOTA_BYTES=$((64 << 20))
unset GPUMUX_REGISTER GPUMUX_DISABLE GPUMUX_SHIM_DEBUG LD_LIBRARY_PATH
failures=0 checks=0 skips=()

# fetch NAME SUITE ARCHITECTURE PACKAGE...: sets root to the folder of the packages; fails if the
# mirror lacks one.
fetch() {
    local name=$1 reason
    root=$cache/$name
    reason=$("$here/../../scripts/fetch-debian" "$2" "$3" "$root" "${@:4}") && return
    skips+=("$name: $reason")
    return 1
}
# clean WHAT: the last command printed nothing on standard error.
clean() {
    [ ! -s "$dir/errors" ] || { echo "$1: $(cat "$dir/errors")"; failures=$((failures + 1)); }
}
# expect WHAT TEXT COMMAND...: the command prints TEXT and succeeds.
expect() {
    local what=$1 text=$2 said status=0
    shift 2
    checks=$((checks + 1))
    said=$(timeout 60 "$@" 2> "$dir/errors") || status=$?
    [ "$status" = 0 ] && [ "$said" = "$text" ] && return
    failures=$((failures + 1))
    printf '%s: status %s, "%s", wanted "%s"\n' "$what" "$status" "$said" "$text"
    head -n 5 "$dir/errors"
}

# shim_works_with_glibc VERSION SUITE HASH: HASH is the kind of the driver's table of symbols.
shim_works_with_glibc() {
    local version=$1 kind bind libraries compile start linker
    fetch "glibc-$version" "$2" amd64 libc6 libc6-dev linux-libc-dev || return
    libraries=$root/lib/x86_64-linux-gnu
    linker=$libraries/ld-linux-x86-64.so.2
    # Takes nothing from the compiler's own folders, which have this machine's C library.
    compile=("$cc" --sysroot="$root" -std=gnu17 -D_GNU_SOURCE -nostdlib -fPIC
        -L"$root/usr/lib/x86_64-linux-gnu" -L"$libraries")
    start=("$root"/usr/lib/x86_64-linux-gnu/{crt1.o,crti.o,crtn.o})
    "${compile[@]}" -shared -Wl,-soname,libcuda.so.1 -Wl,--hash-style="$3" \
        "$here/tiny_driver.c" -lc -o "$dir/libcuda.so.1" || exit 1
    compile+=(-no-pie "${start[@]}" "$here/foreign_program.c")
    "${compile[@]}" -DPROGRAM_PLAIN -lc -o "$dir/plain" || exit 1
    "${compile[@]}" -ldl -lc -o "$dir/loading" || exit 1
    "${compile[@]}" -DPROGRAM_THREADS -ldl -lpthread -lc -o "$dir/threads" || exit 1
    for kind in plain loading threads; do
        for bind in LD_BIND_NOW= LD_BIND_NOW=1; do
            expect "glibc $version, $kind, $bind" "$version" \
                env $bind LD_PRELOAD="$shim" "$linker" --library-path "$libraries:$dir" "$dir/$kind"
            clean "glibc $version, $kind, $bind"
        done
    done
    # Without the shim nothing enforces the quota, and the program fails: the checks can fail.
    checks=$((checks + 1))
    if "$linker" --library-path "$libraries:$dir" "$dir/loading" > /dev/null; then
        echo "glibc $version: the program is content without a shim"
        failures=$((failures + 1))
    fi
}

shim_works_with_musl() {
    local include libraries linker bind
    fetch musl bookworm amd64 musl musl-dev || return
    include=$root/usr/include/x86_64-linux-musl libraries=$root/usr/lib/x86_64-linux-musl
    linker=$root/lib/x86_64-linux-musl/libc.so
    "$cc" -std=gnu17 -D_GNU_SOURCE -DPROGRAM_MUSL -nostdinc -isystem "$include" -nostdlib -fPIE \
        -pie "$libraries/Scrt1.o" "$libraries/crti.o" "$here/foreign_program.c" "$linker" \
        "$libraries/crtn.o" -o "$dir/musl" || exit 1
    for bind in LD_BIND_NOW= LD_BIND_NOW=1; do
        expect "musl, $bind" musl env $bind LD_PRELOAD="$shim" "$linker" "$dir/musl"
        clean "musl, $bind"
    done
}

shim_spares_32_bit_programs() {
    local libraries linker
    fetch i386 bookworm i386 libc6 hostname || return
    libraries=$root/lib/i386-linux-gnu linker=$root/lib/ld-linux.so.2
    if ! "$linker" --library-path "$libraries" "$root/bin/hostname" > /dev/null 2>&1; then
        skips+=("i386: this kernel runs no 32-bit programs")
        return
    fi
    expect "a 32-bit program" "$("$linker" --library-path "$libraries" "$root/bin/hostname")" \
        env LD_PRELOAD="$shim" "$linker" --library-path "$libraries" "$root/bin/hostname"
}

shim_works_with_glibc 2.31 bullseye sysv
shim_works_with_glibc 2.41 trixie gnu
shim_works_with_musl
shim_spares_32_bit_programs
for skip in "${skips[@]}"; do echo "skipped: $skip"; done
echo "$checks checks, $failures failed, ${#skips[@]} skipped"
[ "$failures" = 0 ] || exit 1
[ "$checks" -gt 0 ] || { echo "the mirror has no other C library: ${skips[0]}"; exit 77; }
