#!/bin/bash
# tidy.sh ROOT [BUILD]: checks the rules of CONTRIBUTING.md that a program can check.
#
# Prints FILE:LINE: MESSAGE for every breach in the tree ROOT and exits with 1 if there is any. With
# BUILD (an optimised build of that tree) it also looks for writable data in the object files. To
# add a rule, edit source.awk for the text of C files, prose.awk for English and the width of lines,
# or unnamed_files for names in the build files. Then add a case to tidy_selftest.sh that proves
# that the rule can fail.
set -Eeuo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
build=${2:-}
edges=tests/tidy/edges.txt
writable=tests/tidy/writable.txt
prose=tests/tidy/prose.txt
clang_format_major=14
file_lines_max=800
folder_files_max=45
# Files that are not written by hand or not read as a whole; the description of an interface is one
# document.
not_written='\.(csv|json|svg)$|^tests/fuzz/corpus/'
one_document='^api/openapi\.yaml$'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'echo "$0:$LINENO: could not check: $BASH_COMMAND"' ERR

# Lists all files of the tree: those that git would commit, or all files without git.
list_files() {
    if [ "$(git rev-parse --show-toplevel 2> /dev/null)" = "$PWD" ]; then
        git ls-files --cached --others --exclude-standard
    else
        find . \( -name .git -o -path ./build -o -path ./dist \) -prune -o -type f -print \
            | sed 's|^\./||'
    fi | while IFS= read -r file; do [ ! -f "$file" ] || echo "$file"; done | sort -u
}

sources() { xargs -r -d '\n' awk -v edges_file="$edges" -f "$here/source.awk" < "$work/c_files"; }

# English and the width of lines: code, scripts (including those without a suffix), Markdown and
# YAML.
prose() {
    { grep -E '(^|/)[^./]+$' "$work/files" || true; } \
        | xargs -r -d '\n' awk 'FNR == 1 && /^#!.*sh$/ { print FILENAME }' > "$work/prose_files"
    { grep -E '\.(c|h|def|sh|awk|py|cmake|md|yaml|yml)$|(^|/)CMakeLists\.txt$' "$work/files" \
        || true; } | { grep -vE "$not_written" || true; } >> "$work/prose_files"
    sort "$work/prose_files" | xargs -r -d '\n' awk -v prose_file="$prose" -f "$here/prose.awk"
    [ ! -f "$prose" ] || grep -nEv '^(#.*)?$' "$prose" | tr : ' ' | while read -r line path rule; do
        [ -e "$path" ] || echo "$prose:$line: no such file or folder: $path"
        [[ $rule =~ ^(width|openings|)$ ]] || echo "$prose:$line: no such rule: $rule"
    done
}

# All files in lines that are written by hand.
long_files() {
    { grep -vE "$not_written|$one_document" "$work/files" || true; } \
        | xargs -r -d '\n' grep -HcI '' \
        | awk -F : -v max=$file_lines_max \
        '$2 > max { print $1 ":" $2 ": file of " $2 " lines, more than " max }'
}

# Folders of product code with too many files, not counting tests.
crowded_folders() {
    awk -v max=$folder_files_max '
        /^(src|emu|workloads)\// && !/_(test|fuzz|fixture)\.[a-z]+$/ {
            sub(/\/[^\/]*$/, "")
            count[$0]++
        }
        END {
            for (f in count)
                if (count[f] > max)
                    print f ":1: folder of " count[f] " files, more than " max
        }' "$work/files"
}

# Folders of sources without a main header: one header of each folder repeats the folder's line in
# edges.txt ("Files of the folder base may include nothing.").
main_headers() {
    grep -E '\.h$' "$work/files" | xargs -r -d '\n' awk -v edges_file="$edges" '
        FNR == 1 { in_comment = /^\/\*/; text = "" }
        in_comment {
            line = $0
            sub(/^ ?\/?\*+ ?/, "", line)
            text = text " " line
            if (match(text, /[Ff]iles of the folder [a-z\/_]+ may include [^.]*\./))
                said[substr(text, RSTART + 20, RLENGTH - 21)] = FILENAME
            in_comment = !/\*\/$/
        }
        END {
            while ((getline line < edges_file) > 0) {
                row++
                sub(/#.*/, "", line)
                count = split(line, word, /:? +|:$/)
                sub(/:$/, "", word[1])
                folder = word[1]
                top = folder ~ /^(emu|workloads)/ ? "" : "src/"
                path = top folder
                if (folder == "" || folder ~ /\.[ch]$/ \
                    || system("ls " path "/*.c " path "/*.h > /dev/null 2>&1"))
                    continue
                wanted = folder " may include"
                for (i = 2; i <= count; i++)
                    if (word[i] != "")
                        wanted = wanted (wanted ~ /include$/ ? " " : ", ") word[i]
                if (wanted ~ /include$/)
                    wanted = wanted " nothing"
                if (!(wanted in said) || index(said[wanted], top folder "/") != 1)
                    print edges_file ":" row ": no header of the folder says: Files of the " \
                        "folder " wanted "."
            }
        }'
}

# Machine paths and marks of unfinished work, in all text files of the tree.
leftovers() {
    xargs -r -d '\n' grep -nHIE '(^|[^A-Za-z0-9_.})*$~-])/(work|farm|root|home)/' < "$work/files" \
        | sed -E 's/^([^:]*:[0-9]+):.*/\1: a path of one machine/' || true
    xargs -r -d '\n' grep -nHIwE 'TO''DO|FIX''ME' < "$work/files" \
        | sed -E 's/^([^:]*:[0-9]+):.*/\1: a mark of unfinished work/' || true
}

layout() {
    local major
    major=$(clang-format --version | sed -E 's/.*version ([0-9]+).*/\1/')
    if [ "$major" != $clang_format_major ]; then
        echo ".clang-format:1: needs clang-format $clang_format_major, found ${major:-none}"
        return
    fi
    { xargs -r -d '\n' -P "$(nproc)" -n 16 clang-format --dry-run -Werror < "$work/c_files" 2>&1 \
        || true; } \
        | sed -nE \
        's/^([^:]*:[0-9]+):[0-9]+: error: .*/\1: not laid out by clang-format (make format)/p' \
        | sort -u -t : -k 1,1
}

# Sources and tests that no CMakeLists.txt names, so that they are never built or run. A
# CMakeLists.txt with ${x}.sh in it also names scripts by their words without the suffix.
unnamed_files() {
    grep -E '(^|/)CMakeLists\.txt$' "$work/files" | while IFS= read -r list; do
        awk -v folder="${list%CMakeLists.txt}" '
        {
            sub(/#.*/, "")
            gsub(/\$\{(CMAKE_SOURCE_DIR|PROJECT_SOURCE_DIR)\}\//, "/")
            gsub(/\$\{(CMAKE_CURRENT_SOURCE_DIR|CMAKE_CURRENT_LIST_DIR)\}\//, "")
            if (/\$\{[a-z_]+\}\.sh/)
                by_word = 1
            gsub(/[()"]/, " ")
            for (i = 1; i <= NF; i++)
                word[(substr($i, 1, 1) == "/") ? substr($i, 2) : folder $i] = 1
        }
        END { for (name in word) { print name; if (by_word) print name ".sh" } }' "$list"
    done | sort -u > "$work/named"
    # A script that test scripts source is run by them.
    grep -E '^tests/.*\.sh$' "$work/files" | xargs -r -d '\n' awk '
        ($1 == "." || $1 == "source") && match($0, /[A-Za-z0-9_.\/-]+\.sh/) {
            path = substr($0, RSTART, RLENGTH)
            folder = FILENAME
            sub(/[^\/]*$/, "", folder)
            if (path !~ /^tests\//)
                path = folder (substr(path, 1, 1) == "/" ? substr(path, 2) : path)
            sub(/[^\/]+\/\.\.\//, "", path)
            print path
        }' | sort -u > "$work/sourced"
    { grep -E '\.c$|^tests/.*\.sh$' "$work/files" | grep -vxFf "$work/named" || true; } \
        | while IFS= read -r file; do
            case $file in
            *.sh) grep -qxF "$file" "$work/sourced" && continue ;&
            *_test.c | *_fuzz.c | tests/*) echo "$file:1: a test that no CMakeLists.txt runs" ;;
            *) echo "$file:1: a dead file: no CMakeLists.txt names it" ;;
            esac
        done
}

# Writable data in the object files of existing sources. Constant tables with pointers are relocated
# once and then read-only, in .data.rel.ro.
writable_data() {
    local object source class symbol line reason
    [ -n "$build" ] || return 0
    # The object A/CMakeFiles/T.dir/x.c.o is built from A/x.c; with /__/ in its path, from B of
    # /__/B.
    (cd "$build" && find . -name '*.c.o') \
        | sed -E 'h; s#CMakeFiles/[^/]*\.dir/##; s#\.o$##; s#.*(/__)+/##; s#^\./##
            x; G; s#\n#\t#' \
        | while IFS=$'\t' read -r object source; do
            [ ! -f "$source" ] || printf '%s\t%s\n' "$build/$object" "$source"
        done > "$work/objects"
    cut -f 1 "$work/objects" | xargs -r -d '\n' nm -A --format=sysv 2> /dev/null \
        | awk -F '|' -v objects="$work/objects" '
        BEGIN {
            while ((getline line < objects) > 0) {
                split(line, part, "\t")
                source[part[1]] = part[2]
            }
        }
        NF >= 7 && $3 ~ /[BDCbdS]/ && $7 !~ /rel\.ro|rodata/ {
            colon = match($1, /\.c\.o:/) + 4
            symbol = substr($1, colon + 1)
            sub(/ +$/, "", symbol); sub(/\.[0-9]+$/, "", symbol); gsub(/ /, "", $3)
            print source[substr($1, 1, colon - 1)] "\t" $3 "\t" symbol
        }' | sort -u > "$work/data"
    while IFS=$'\t' read -r source class symbol; do
        case $class$source in
        [bd]tests/* | [bd]bench/* | [bd]*_test.c | [bd]*_fuzz.c) continue ;;
        esac
        reason=$(awk -v f="$source" -v s="$symbol" '$1 == f && $2 == s && NF > 2' "$writable" \
            2> /dev/null || true)
        [ -z "$reason" ] || continue
        line=$(grep -nwF -m 1 -- "$symbol" "$source" | cut -d : -f 1 || true)
        echo "$source:${line:-1}: writable global data: $symbol (let a context own it)"
    done < "$work/data"
    [ ! -f "$writable" ] || awk -v data="$work/data" -v name="$writable" '
        BEGIN {
            while ((getline line < data) > 0) {
                split(line, part, "\t")
                there[part[1] " " part[3]] = 1
            }
        }
        !/^#/ && NF && !(($1 " " $2) in there) {
            print name ":" FNR ": no such data any more: " $1 " " $2 }' "$writable"
}

list_files > "$work/files"
grep -E '\.[ch]$' "$work/files" > "$work/c_files" || true
{
    sources; prose; long_files; crowded_folders; main_headers; leftovers; layout; unnamed_files
    writable_data
} > "$work/breaches"
cat "$work/breaches"
if [ -s "$work/breaches" ]; then
    echo "tidy: $(wc -l < "$work/breaches") breaches in $(wc -l < "$work/files") files"
    exit 1
fi
echo "tidy: $(wc -l < "$work/files") files, no breach"
