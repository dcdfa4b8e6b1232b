#!/bin/bash
# libgpumux.so.0 exports exactly the calls of its header and needs only the C library, in a version
# that older systems have; the header is valid C and C++.
set -euo pipefail
library=$GPUMUX_BUILD/src/client/libgpumux.so.0
header=$GPUMUX_SOURCE/src/client/gpumux.h
glibc_max=2.17
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain() { echo "$*"; failed=1; }

grep -oE '\bgpumux_[a-z_]+\(' "$header" | tr -d '(' | sort -u > "$work/declared"
nm -D --defined-only "$library" | sed -nE 's/.* T (gpumux_[a-z_]+)@@GPUMUX_0\.[0-9]+$/\1/p' \
    | sort > "$work/exported"
[ "$(nm -D --defined-only "$library" | grep -vc ' A ')" = "$(wc -l < "$work/exported")" ] \
    || complain "it exports more than calls: $(nm -D --defined-only "$library")"
diff "$work/declared" "$work/exported" || complain "< only in gpumux.h, > only in libgpumux.so.0"
readelf -d "$library" | grep -q 'SONAME.*\[libgpumux\.so\.0\]' || complain "its name is another"
[ "$(readelf -d "$library" | sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p')" = libc.so.6 ] \
    || complain "it needs more than libc.so.6"
newest=$(nm -D "$library" | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -uV | tail -n 1)
[ "$(printf '%s\n' $glibc_max "$newest" | sort -V | tail -n 1)" = $glibc_max ] \
    || complain "it needs glibc $newest"

echo '#include <gpumux.h>' > "$work/user.c"
syntax() {
    "$@" -I "${header%/*}" -Wall -Wextra -Wpedantic -Werror -fsyntax-only "$work/user.c" \
        || complain "$*: not this header"
}
syntax cc -std=c11
for compiler in g++ clang++; do
    if command -v $compiler > /dev/null; then syntax $compiler -x c++ -std=c++11; fi
done
exit $failed
