#!/bin/bash
# commands.sh ROOT: checks that every command in the pages for administrators is run by a test.
#
# A block is ```sh run, which system/docs_PAGE runs; or ```sh below a mark that names the test
# (follow.sh); or ```text for a command's output. The test must exist, be registered, and check that
# it skips no such block. A command in a sentence or a table must also occur in such a block; words
# in capitals, and …, match any words of the block.
set -euo pipefail
cd "$1"
. tests/docs/follow.sh
work=$(mktemp -d)
trap 'rm -rf "$work" "$FOLLOWED_BLOCKS"' EXIT
pages=(docs/install.md docs/first-cluster.md docs/operate.md docs/security.md \
    docs/troubleshooting.md)
failed=0
complain() { echo "$*"; failed=1; }

# fences PAGE: prints "LINE LANGUAGE|RUNNER" for each block, with the runner of its mark.
fences() {
    awk '
        /^```/ && inside { inside = 0; before = ""; next }
        /^```/ {
            inside = 1
            runner = before ~ /^<!-- run by .* -->$/ ? substr(before, 13, length(before) - 16) : ""
            print FNR " " substr($0, 4) "|" runner
        }
        { before = $0 }' "$1"
}

# runs_all RUNNER: returns whether the test takes its commands from the pages, and takes all.
runs_all() {
    local script
    case $1 in
    system/*)
        script=tests/$1.sh
        grep -qE "^gpumux_script_test\($1 |^ +gpumux_script_test\($1 " tests/system/CMakeLists.txt \
            || return 1
        ;;
    "make "*)
        script=scripts/${1#make }
        grep -qE "^${1#make }:" Makefile || return 1
        ;;
    *) return 1 ;;
    esac
    [ -f "$script" ] && grep -qxF "runner='$1'" "$script" \
        && grep -q '^ *all_followed "$runner" ' "$script" \
        && grep -q 'page_block "$runner"' "$script"
}

programs='gpumux|gpumux-burn|systemctl|systemd-analyze|journalctl|make|apt|apt-get|dpkg|curl'
programs+='|sqlite3|install|mv|cp|rm|tar|chmod|chown|ldconfig|date|kill|cat|echo|podman|docker'
programs+='|groupadd|useradd|mkdir|openssl|ss|nc|ping|tail|grep|sh|sudo'

for page in "${pages[@]}"; do
    name=$(basename "$page" .md)
    while read -r line rest; do
        language=${rest%|*} runner=${rest##*|}
        case $language in
        ini) ;;
        text) # output of a command
            if awk -v from="$line" -v commands="^([$] |($programs)( |\$))" '
                FNR > from && /^```/ { exit } FNR > from && $0 ~ commands { found = 1 }
                END { exit !found }' "$page"; then
                complain "$page:$line: commands in a block of output"
            fi
            ;;
        "sh run") [ -z "$runner" ] \
            || complain "$page:$line: run by system/docs_$name, and by $runner?" ;;
        sh)
            if [ -z "$runner" ]; then
                complain "$page:$line: commands that no test runs"
            elif ! runs_all "$runner"; then
                complain "$page:$line: '$runner' is no test that runs all commands marked so"
            fi
            ;;
        *) complain "$page:$line: a block of '$language': commands are in blocks of sh" ;;
        esac
    done < <(fences "$page")
done

# Collects the tested commands: the lines of all blocks, without comments.
for page in "${pages[@]}"; do
    awk '/^```/ && inside { inside = 0; next } /^```sh/ { inside = 1; next } inside' "$page"
done | sed -E 's/ +# .*//' > "$work/run"

# inline PAGE: prints "LINE COMMAND" for each `` span outside of blocks that starts like a command.
mapfile -t subcommands < <(grep -oE '\.name = "[a-z]+"' src/cli/commands.c | cut -d '"' -f 2)
[ ${#subcommands[@]} -gt 10 ] || complain "src/cli/commands.c: the commands are not found in it"
inline() {
    awk -v programs="^($programs)( |\$)" \
        -v names="^($(IFS='|'; echo \
        "${subcommands[*]}")) (-|[A-Z][A-Z]|init|create|list|revoke|check|default|export|backup)" '
        /^```/ { inside = !inside; next }
        inside { next }
        # A span may continue on the next line.
        { line = carry $0; carry = "" }
        { if (gsub(/`/, "`", line) % 2) { carry = line " "; next } }
        {
            n = split(line, part, "`")
            for (i = 2; i <= n; i += 2) {
                if (part[i] ~ programs && part[i] ~ / |^(ldconfig|date)$/) print FNR " " part[i]
                else if (part[i] ~ names) print FNR " gpumux " part[i]
            }
        }' "$1"
}
for page in "${pages[@]}"; do inline "$page" | sed "s|^|$page:|"; done > "$work/inline"
cut -d ' ' -f 2- "$work/inline" \
    | sed -E 's/[][().*+?^${}|\\]/\\&/g; s/…/.*/g; s/\b[A-Z]{2,}(:[A-Z]+)?\b/[^ ]+/g' \
    > "$work/patterns"
# Match all commands in one process, because a process per command takes most of the time.
paste -d '\t' "$work/patterns" "$work/inline" | awk -F '\t' '
    NR == FNR { run[++count] = $0; next }
    {
        pattern = "(^|[ (\"])" $1 "( |$|[)\";])"
        for (i = 1; i <= count && run[i] !~ pattern; i++);
        if (i <= count) next
        at = index($2, " ")
        print substr($2, 1, at - 1) ": a command that no test runs: " substr($2, at + 1)
        failed = 1
    }
    END { exit failed }' "$work/run" - || failed=1
exit $failed
