#!/bin/bash
# Checks that every target in `make help` is made by continuous integration or by `make soak`,
# directly or as a prerequisite, and that the sum at the end of both includes all failures. `make`
# is a stand-in here that only records its targets.
set -euo pipefail

source=${GPUMUX_SOURCE:?set it to the top of the tree}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "targets: $*" >&2; exit 1; }

real_make=$(command -v make)
mkdir "$work/bin" "$work/tree" "$work/tree/scripts"
cat > "$work/bin/make" << 'END'
#!/bin/sh
[ "$1" != --no-print-directory ] || shift
echo "$1" >> "$NOTES"
case " $FAILING " in *" $1 "*) status=2;; *) status=0;; esac
[ "$1" != test ] \
    || printf 'skipped asan: a: needs root\n%s\n' "${TEST_SUM:-7 passed, 0 failed, 1 skipped}"
exit $status
END
chmod +x "$work/bin/make"
export NOTES=$work/notes FAILING=

# run COMMAND...: runs the command in the copied tree, with the stand-in.
run() { (cd "$work/tree" && PATH=$work/bin:$PATH "$@"); }

# unreached: prints the listed targets that neither list makes, and the made targets that are not
# listed.
unreached() {
    (cd "$work/tree" && "$real_make" --no-print-directory help) | awk '{ print $2 }' \
        | sort > "$work/listed"
    : > "$NOTES"
    echo soak >> "$NOTES"
    run .ci/run > "$work/ci" 2>&1 \
        || { cat "$work/ci" >&2; die ".ci/run fails where every target passes"; }
    ROUNDS=0 run scripts/soak > "$work/soak" 2>&1 \
        || { cat "$work/soak" >&2; die "scripts/soak fails where every target passes"; }
    # Prerequisites of made targets are made as well.
    awk -F ':|##' 'NR == FNR { made[$1] = 1; next }
        /^[a-z-]+:.*##/ { needs[$1] = $2 }
        END {
            do {
                added = 0
                for (target in made) {
                    count = split(needs[target], words, " ")
                    for (i = 1; i <= count; i++)
                        if (!(words[i] in made)) { made[words[i]] = 1; added = 1 }
                }
            } while (added)
            for (target in made) print target
        }' "$NOTES" "$work/tree/Makefile" | sort > "$work/made"
    comm -3 "$work/listed" "$work/made" | tr -d '\t'
}

cp -r "$source/.ci" "$source/Makefile" "$work/tree/"
cp "$source/scripts/"{soak,targets} "$work/tree/scripts/"
[ "$(wc -l < <(run "$real_make" --no-print-directory help))" -gt 10 ] \
    || die "the targets were not read"
left=$(unreached)
count=$(wc -l < "$work/listed")
[ -z "$left" ] \
    || die "listed by make help but made by neither .ci/run nor make soak, or the reverse:" $left
printf '\nplanted: ## a target that nothing makes\n\t@true\n' >> "$work/tree/Makefile"
[ "$(unreached)" = planted ] || die "a target that nothing makes was not found: $(unreached)"

# last LINES: prints the last lines of .ci/run, and its status.
last() {
    local status=0
    run .ci/run > "$work/ci" 2>&1 || status=$?
    tail -n "$1" "$work/ci"
    echo "status $status"
}
others=$(($(run .ci/run | grep -c '^== make ') - 1))
expect() {
    local said
    said=$(last "$(wc -l <<< "$1")" | sed '$d'; last 1 | tail -n 1)
    [ "$said" = "$1
$2" ] || die "continuous integration ended with: $said
instead of: $1
$2"
}
expect "skipped asan: a: needs root
$((7 + others)) passed, 0 failed, 1 skipped" "status 0"
FAILING=clang expect "skipped asan: a: needs root
failed  make clang, with status 2
$((6 + others)) passed, 1 failed, 1 skipped" "status 1"
FAILING=test TEST_SUM='failed  tsan: system/mps
5 passed, 2 failed, 1 skipped' expect "skipped asan: a: needs root
failed  tsan: system/mps
$((5 + others)) passed, 2 failed, 1 skipped" "status 1"
FAILING=test expect "failed  make test, with status 2
$((7 + others)) passed, 1 failed, 1 skipped" "status 1"
echo "$count targets, each of them made by continuous integration or by soak"
