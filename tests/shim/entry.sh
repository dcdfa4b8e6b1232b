#!/bin/bash
# entry.sh PROGRAM NEXT_O0 NEXT_O2 OWN_DLSYM HOST: the shim's dlsym among other libraries that have
# to do with dlsym, before and after it.
set -u
program=$1 next_o0=$2 next_o2=$3 own=$4 host=$5
shim=$GPUMUX_BUILD/lib/libgpumux-cuda.so
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_RUNTIME_DIR=$dir GPUMUX_EMU_DEVICES=H200:24g LD_LIBRARY_PATH=$GPUMUX_BUILD/emu
unset GPUMUX_EMU CUDA_VISIBLE_DEVICES GPUMUX_REGISTER GPUMUX_DISABLE GPUMUX_QUOTA_BYTES \
    GPUMUX_SHIM_DEBUG
failures=0 checks=0

# expect PRELOAD TEXT [VARIABLE=VALUE...]: what the program prints with these libraries, in this
# order.
expect() {
    local preload=$1 text=$2 said
    shift 2
    checks=$((checks + 1))
    said=$(env "$@" LD_PRELOAD="$preload" timeout 60 "$program" 2>&1)
    [ "$said" = "$text" ] && return
    failures=$((failures + 1))
    printf 'LD_PRELOAD="%s": %s\nwanted: %s\n' "$preload" "$said" "$text"
}
for bind in LD_BIND_NOW= LD_BIND_NOW=1; do
    expect "" $'hello\nlibcuda.so.1 -1' $bind
    expect "$shim" $'hello\nlibgpumux-cuda.so -1' $bind
    for next in "$next_o0 O0" "$next_o2 O2"; do
        name=${next##* } library=${next% *}
        expect "$library $shim" "[$name] hello"$'\nlibgpumux-cuda.so -1' $bind
        expect "$shim $library" "[$name] hello"$'\nlibgpumux-cuda.so -1' $bind
    done
    expect "$next_o0 $shim $next_o2" $'[O2] [O0] hello\nlibgpumux-cuda.so -1' $bind
    # A dlsym of its own is asked once for a call of the driver, wherever it stands, and the hook is
    # found.
    expect "$own" $'hello\nlibcuda.so.1 1' $bind
    expect "$own $shim" $'hello\nlibgpumux-cuda.so 1' $bind
    expect "$shim $own" $'hello\nlibgpumux-cuda.so 1' $bind
done

# The sanitizers' runtimes take over much of the C library, and find it with dlsym at their start.
for runtime in libasan.so libtsan.so; do
    path=$("${CC:-cc}" -print-file-name=$runtime)
    if [ ! -f "$path" ]; then
        echo "skipped: $runtime before the shim: the compiler has none"
        continue
    fi
    run=()
    ! setarch --addr-no-randomize true 2> /dev/null || run=(setarch --addr-no-randomize)
    for command in lookups quota threads forks; do
        checks=$((checks + 1))
        # The program is not instrumented, so its leaks do not matter.
        said=$(ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=report_bugs=0:die_after_fork=0 \
            GPUMUX_QUOTA_BYTES=$((664 << 20)) \
            timeout 100 "${run[@]}" env LD_PRELOAD="$path $shim" "$host" $command 2>&1) && continue
        failures=$((failures + 1))
        printf '%s before the shim, %s: status %s\n%s\n' $runtime $command $? "$said"
    done
done
echo "$checks checks, $failures failed"
[ "$failures" = 0 ]
