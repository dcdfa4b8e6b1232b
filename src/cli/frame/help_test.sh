#!/bin/bash
# help_test.sh GPUMUX PAGES: every command is documented everywhere, and everything documented
# works.
set -euo pipefail
gpumux=$1 pages=$2
failures=0 checks=0

fail() { failures=$((failures + 1)); echo "help_test: $*"; }
check() { checks=$((checks + 1)); "${@:2}" > /dev/null 2>&1 || fail "$1"; }

commands=$("$gpumux" help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ "$(wc -w <<< "$commands")" -ge 20 ] || fail "'gpumux help' lists only: $commands"
"$gpumux" completion bash > "${TMPDIR:-/tmp}/gpumux_completion.$$"
trap 'rm -f "${TMPDIR:-/tmp}/gpumux_completion.$$"' EXIT
check "the bash completion is a script" bash -n "${TMPDIR:-/tmp}/gpumux_completion.$$"

# completes WANTED WORD...: what bash offers for the last word of a line.
completes() (
    # shellcheck disable=SC1090
    source "${TMPDIR:-/tmp}/gpumux_completion.$$"
    COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
    _gpumux
    [[ " ${COMPREPLY[*]} " == *" $1 "* ]]
)
refuses() { ! completes "$@"; }
check "commands are completed" completes submit gpumux sub
check "options are completed" completes --quota gpumux submit --qu
check "choices are completed" completes service gpumux submit --kind ''
check "operands are completed" completes default gpumux config ''
check "commands are completed for help" completes submit gpumux help su
check "states are completed" completes running gpumux ps --state r
check "the last state of several is completed" completes running,failed gpumux ps --state running,fa
check "policies are completed" completes firstfit gpumux up --policy = f
check "sim offers every policy" completes oracle gpumux sim --policy = o
check "daemons offer no policy of the simulator" refuses oracle gpumux up --policy = o
# Completion leaves the workload's own arguments and files to the shell.
for line in 'submit -- -' 'submit -- python --' 'run python -' 'run -m 4g --name = x python --' \
    'run python3 rc' 'submit '; do
    IFS=' ' read -ra words <<< "$line"
    [ "${line% }" = "$line" ] || words+=('')
    check "'$line' has no reply" completes '' gpumux "${words[@]}"
done
check "options are completed before a command" completes --quota gpumux run --name = x -e A = 1 \
    -d 2 --qu
check "no reply is a file" grep -q '^complete -o default -F _gpumux gpumux$' \
    "${TMPDIR:-/tmp}/gpumux_completion.$$"

for command in $commands; do
    help=$("$gpumux" "$command" --help)
    check "$command: 'help' and --help agree" test "$("$gpumux" help "$command")" = "$help"
    check "$command: a usage line" grep -q "^Usage: gpumux $command" <<< "$help"
    summary=$("$gpumux" help | sed -n "s/^  $command  *//p")
    check "$command: begins with its summary" test "$(head -n 1 <<< "$help")" = "${summary^}."
    check "$command: exit codes" grep -q '^Exit codes:' <<< "$help"
    exits=$(sed -nE '1,/^Exit codes:/d; s/^  ([0-9]+) .*/\1/p' <<< "$help")
    check "$command: exit codes are in order, each once" sort -nuc <<< "$exits"
    asks=no unreachable=no
    grep -q '^ *--socket PATH' <<< "$help" && asks=yes
    grep -qE '^  5 +gpumux cannot be reached' <<< "$help" && unreachable=yes
    check "$command: exit code 5 is of those that ask gpumux" test $asks = $unreachable
    check "$command: no line over 100 columns" test \
        -z "$(LC_ALL=C.UTF-8 grep -E '^.{101}' <<< "$help")"
    page=$pages/gpumux-$command.1
    check "$command: a man page" grep -q "gpumux $command" "$page"
    check "$command: named in gpumux.1" grep -q "gpumux.-$command (1)" "$pages/gpumux.1"
    options=$(grep -oE '^  (-.,|   ) --[a-z-]+' <<< "$help" | grep -oE -- '--[a-z-]+')
    for option in $options; do
        check "$command $option: in the man page" grep -qF -- "${option//-/\\-}" "$page"
        [ "$option" = --help ] \
            || check "$command $option: completed by bash" grep -qE -- \
            "^ +$command:-\*\).* ?$option[ \"]" "${TMPDIR:-/tmp}/gpumux_completion.$$"
    done
    status=0
    said=$("$gpumux" "$command" --no-such-option 2>&1) || status=$?
    check "$command: an unknown option is a usage error" test "$status" = 2
    check "$command: and is named" grep -q -- '--no-such-option' <<< "$said"
done

status=0
said=$("$gpumux" submti 2>&1) || status=$?
check "a mistyped command is a usage error" test "$status" = 2
check "with a hint" grep -q "did you mean 'submit'" <<< "$said"
while read -r word command; do
    said=$("$gpumux" "$word" 3 2>&1) || true
    check "$word: what it is called here" grep -q "did you mean '$command'" <<< "$said"
done << 'END'
stop cancel
status ps
start up
show describe
restart requeue
END
check "a short option is not near to any other" test \
    -z "$("$gpumux" cancel --all 2>&1 | grep 'did you mean')"
check "version" grep -qE '^gpumux [0-9]+\.[0-9]+\.[0-9]+$' <<< "$("$gpumux" version)"
status=0
said=$("$gpumux" ps --socket /nonexistent/api.sock 2>&1) || status=$?
check "unreachable is exit code 5" test "$status" = 5
check "and says how to start it" grep -q 'gpumux up' <<< "$said"

if command -v man > /dev/null && man --version > /dev/null 2>&1; then
    for page in "$pages"/*.1; do
        warnings=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 \
            -l -Tutf8 -Z "$page" 2>&1 > /dev/null)
        check "${page##*/}: $warnings" test -z "$warnings"
    done
else
    echo "help_test: man is not installed: the pages' markup was not checked"
fi
echo "help_test: $checks checks, $failures failed"
[ $failures = 0 ]
