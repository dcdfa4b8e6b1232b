#!/bin/bash
# replay_test.sh PROGRAM: the replay counts its inputs, refuses an empty corpus, and under
# AddressSanitizer an input that meets the planted bug ends it, with a report where reports are
# looked for.
set -euo pipefail

program=$1
corpus=$(mktemp -d)
reports=$(mktemp -d)
trap 'rm -rf "$corpus" "$reports"' EXIT

die() { echo "replay_test: $*" >&2; exit 1; }

! "$program" "$corpus" 2> /dev/null || die "an empty corpus passed"
! "$program" "$corpus/missing" 2> /dev/null || die "a missing file passed"
printf 'harmless' > "$corpus/a"
: > "$corpus/b"
[ "$("$program" "$corpus")" = "2 inputs replayed" ] || die "two files were not counted as two"
[ "$("$program" "$corpus" "$corpus/a")" = "3 inputs replayed" ] \
    || die "a file by name was not counted"
if [ "$GPUMUX_SANITIZE" = address ]; then
    printf 'mux! and more' > "$corpus/c"
    # The report of this one is expected: not into the place where reports are failures.
    ! ASAN_OPTIONS=log_path=$reports/asan "$program" "$corpus" > /dev/null 2>&1 \
        || die "the planted bug passed"
    grep -q 'ERROR: AddressSanitizer' "$reports"/asan.* \
        || die "the report of the planted bug is not in its file"
fi
