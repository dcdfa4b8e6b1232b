#!/bin/bash
# Checks the exports and needs of libgpumux-cuda.so: nothing can keep a process from starting.
set -u
shim=$GPUMUX_BUILD/lib/libgpumux-cuda.so
objects=$GPUMUX_BUILD/src/shim/CMakeFiles/shim.dir
failures=0
fail() {
    echo "$*"
    failures=$((failures + 1))
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Needs: libc.so.6 alone, of glibc 2.17 at most, and nothing that was once in another library.
needed=$(objdump -p "$shim" | awk '$1 == "NEEDED" { print $2 }')
[ "$needed" = libc.so.6 ] || fail "needs other libraries than libc.so.6: $needed"
newest=$(printf '%s\n' 2.17 $(objdump -T "$shim" | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//') \
    | sort -V | tail -n 1)
[ "$newest" = 2.17 ] || fail "needs glibc $newest"
undefined=$(nm -D --undefined-only "$shim" | awk '{ print $NF }' | sed 's/@.*//')
for name in $undefined; do
    case $name in
    _r_debug | _dl_debug_addr | __register_atfork | __cxa_at_quick_exit)
        # musl lacks some of these, and no one library has all.
        nm -D --undefined-only "$shim" | grep -qE "^ +w $name(@|\$)" \
            || fail "$name is not a weak reference" ;;
    dl_iterate_phdr) ;;
    dl* | pthread_* | sem_* | shm_* | mq_* | timer_* | aio_* | __libc_dlsym)
        fail "$name was not in libc.so.6 before glibc 2.34" ;;
    __*_chk) fail "$name is not in musl: it was compiled with _FORTIFY_SOURCE" ;;
    esac
done
# 16-byte atomics would be calls of libatomic.
! grep -q __atomic <<< "$undefined" || fail "needs libatomic"

# Exports: dlsym and dlvsym, what ends a process, what sets a signal and the pages, without a
# version, and every intercepted call as one that dlsym cannot find.
objdump -T "$shim" | awk '$4 == ".text" && $6 == "Base" { print $7 }' | sort > "$dir/plain"
printf '%s\n' dlsym dlvsym _exit _Exit signal bsd_signal ssignal sysv_signal __sysv_signal sigset \
    sigaction __sigaction gpumux_pages \
    | sort | diff - "$dir/plain" || fail "other plain exports"
{
    calls='(CALL|LACK)\(([A-Za-z0-9_]+), [A-Za-z0-9_]+, [0-9]+, ([a-z]+), (hook|pass|copy|wait)'
    sed -E ':join; /,$/ { N; s/\n +/ /; b join }' "$GPUMUX_SOURCE/api/cuda_calls.def" \
        | sed -nE "s/^$calls\>.*/\2 \2_\3/p" \
        | tr ' ' '\n' | grep -v '_legacy$'
    sed -nE 's/^CALL\(([A-Za-z0-9_]+), hook\>.*/\1/p' "$GPUMUX_SOURCE/api/nvml_calls.def"
} | sort > "$dir/listed"
objdump -T "$shim" | awk '$6 == "(GPUMUX_CUDA)" { print $7 }' | sort | diff "$dir/listed" - \
    || fail "the exports are not the intercepted calls"
all=$(nm -D --defined-only "$shim" | grep -vc ' A GPUMUX_CUDA$')
[ "$all" = $(cat "$dir/listed" "$dir/plain" | wc -l) ] || fail "$all exports"

# Bound at load, never unloaded, nothing to run at load or end, no TLS that must be allocated.
flags=$(readelf -d "$shim")
grep -q 'FLAGS_1.*NOW.*NODELETE' <<< "$flags" || fail "not linked with -z now and -z nodelete"
! grep -qE '\((INIT|FINI|INIT_ARRAY|FINI_ARRAY|PREINIT_ARRAY)\)' <<< "$flags" \
    || fail "runs something at load"
! readelf -rW "$shim" | grep -qE 'DTPMOD|TLSDESC' || fail "TLS is not initial-exec"
! grep -q TEXTREL <<< "$flags" || fail "has text relocations"
! readelf -lW "$shim" | grep -q 'GNU_STACK.*E ' || fail "wants an executable stack"

# The entry calls nothing but the shim, and what it calls on the way of other programs' names no
# libc.
nm -u "$objects/hook/entry.c.o" | awk '{ print $NF }' \
    | grep -vxE \
    '_GLOBAL_OFFSET_TABLE_|calls_route|resolve_next|signals_has|signals_route|the_process' \
    > "$dir/entry"
[ ! -s "$dir/entry" ] || fail "entry.c calls: $(tr '\n' ' ' < "$dir/entry")"
nm -u "$objects/hook/resolve.c.o" | awk '{ print $NF }' \
    | grep -vxE '_GLOBAL_OFFSET_TABLE_|_DYNAMIC|_r_debug|_dl_debug_addr' > "$dir/resolve"
[ ! -s "$dir/resolve" ] || fail "resolve.c calls: $(tr '\n' ' ' < "$dir/resolve")"
instrumented=$(nm "$shim" | grep -cE '__(asan|tsan|ubsan|stack_chk)' || true)
[ "$instrumented" = 0 ] || fail "is instrumented"

strip -o "$dir/stripped" "$shim"
size=$(stat -c %s "$dir/stripped")
[ "$size" -lt 300000 ] || fail "$size bytes, 300,000 or more"
echo "$(wc -l < "$dir/listed") calls intercepted, $size bytes, needs: $(echo $undefined)"
[ "$failures" = 0 ]
