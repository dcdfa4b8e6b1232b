#!/bin/bash
# replay_test.sh PROGRAM: the replay counts its inputs, refuses an empty corpus, and fails under
# AddressSanitizer on an input that triggers the planted bug, with a report in the expected place.
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
    # This report is expected, so it must not go where reports count as failures.
    ! ASAN_OPTIONS=log_path=$reports/asan "$program" "$corpus" > /dev/null 2>&1 \
        || die "the planted bug passed"
    grep -q 'ERROR: AddressSanitizer' "$reports"/asan.* \
        || die "the report of the planted bug is not in its file"
fi
