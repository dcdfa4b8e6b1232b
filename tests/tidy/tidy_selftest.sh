#!/bin/bash
# Proves that tidy.sh can fail: a small clean tree passes, and each breach added to it is reported.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
tree=$top/tree
failures=0 checks=0 notes=0

# Creates a tree that touches every rule, without a breach.
clean_tree() {
    rm -rf "$tree"
    mkdir -p "$tree"/{src/base,src/model,tests/system,tests/tidy,build/src/base/CMakeFiles/base.dir}
    cd "$tree"
    cp "$here/../../.clang-format" .
    printf 'base:\nmodel: base\ncli: base\ncli/up.c: model\n' > tests/tidy/edges.txt
    printf '# FILE SYMBOL REASON\n' > tests/tidy/writable.txt
    echo . > tests/tidy/prose.txt
    printf '/* Files of the folder base may include nothing. */\n#pragma once\n%s\n' \
        'int a_get(void);' > src/base/a.h
    printf '#pragma once\n' > src/base/a_internal.h
    printf '#include "base/a.h"\n#include "base/a_internal.h"\n\n%s\n{\n    return 1;\n}\n' \
        'int a_get(void)' > src/base/a.c
    printf '#include "base/a.h"\n\nint main(void)\n{\n    return a_get() - 1;\n}\n' \
        > src/base/a_test.c
    printf 'base(SOURCES a.c)\ntest(a_test.c)\n' > src/base/CMakeLists.txt
    printf '/* Files of the folder model may include base. */\n%s\n%s\n' \
        '#pragma once' '#include "base/a.h"' > src/model/m.h
    printf '. "$(dirname "$0")/part.sh"\n' > tests/system/run.sh
    printf 'true\n' > tests/system/part.sh
    printf 'test(${CMAKE_CURRENT_SOURCE_DIR}/run.sh)\n' > tests/system/CMakeLists.txt
}

# Compiles object files, for the cases about data only.
compile_objects() {
    local source
    for source in src/base/*.c; do
        "${CC:-cc}" -O2 -fPIC -Isrc -c "$source" \
            -o "build/src/base/CMakeFiles/base.dir/${source##*/}.o"
    done
}

# expect WHAT TEXT...: tidy must report exactly these breaches, each in a line of its own with TEXT.
# expect WHAT "": none. A run takes 0.15 s, so cases that differ in a word share a tree.
expect() {
    local what=$1 text output status=0 lines wanted=0 found=0
    output=$("$here/tidy.sh" "$tree" "$tree/build" 2>&1) || status=$?
    lines=$(grep -cE '^[^ ]+:[0-9]+: ' <<< "$output" || true)
    for text in "${@:2}"; do
        checks=$((checks + 1))
        [ -n "$text" ] || continue
        wanted=$((wanted + 1))
        [ "$(grep -cF -- "$text" <<< "$output")" != 1 ] || found=$((found + 1))
    done
    [ "$status" = $((wanted > 0)) ] && [ "$lines" = $wanted ] && [ $found = $wanted ] && return
    failures=$((failures + 1))
    printf '%s: wanted %s, status %s, got:\n%s\n' "$what" "${*:2}" "$status" "$output"
}

# in_function FILE STATEMENT: appends a static function with this statement.
in_function() {
    printf '\n%s;\n%s\n{\n    %s\n    return text != 0;\n}\n' 'int extra(char *text)' \
        'int extra(char *text)' "$2" >> "$1"
}

clean_tree && compile_objects && expect "clean tree" ""

clean_tree && sed -i '1i #include "model/m.h"' src/base/a.c
expect "forbidden edge" "src/base/a.c:1: forbidden edge"

clean_tree && mkdir src/cli && printf '#include "model/m.h"\n' | tee src/cli/up.c > src/cli/ps.c
printf 'cli(up.c ps.c)\n' > src/cli/CMakeLists.txt
expect "edge of one file" "src/cli/ps.c:1: forbidden edge"

clean_tree && mkdir src/odd && printf '#pragma once\n#include "base/a.h"\n' > src/odd/o.h
expect "unlisted folder" "src/odd/o.h:2: folder odd is not listed"

clean_tree && printf '#include "base/a_internal.h"\n' >> src/model/m.h
expect "internal header" "src/model/m.h:4: base/a_internal.h is internal"

# The real edges: MPS knows nothing about its users.
clean_tree && cp "$here/edges.txt" tests/tidy && mkdir -p src/node/mps
printf '#pragma once\n#include "node/supervisor/process.h"\n' > src/node/mps/x.h
expect "edge between rooms" ""
printf '#include "node/protect/registrar.h"\n' >> src/node/mps/x.h
expect "forbidden edge between rooms" "src/node/mps/x.h:3: forbidden edge: node/mps may not include"
printf '#pragma once\n#include "node/agent.h"\n' > src/node/mps/x.h
expect "room that uses its folder" \
    "src/node/mps/x.h:2: forbidden edge: node/mps may not include node/agent.h"
mkdir src/node/protect && printf '#pragma once\n' \
    | tee src/node/protect/p_internal.h > src/node/mps/x.h
printf '#pragma once\n#include "node/protect/p_internal.h"\n' > src/node/n.h
expect "internal header of a room" "src/node/n.h:2: node/protect/p_internal.h is internal"

# A header may have its own line, and a room may use nothing.
clean_tree && cp "$here/edges.txt" tests/tidy && mkdir -p src/shim/life src/shim/sys
printf '#pragma once\n#include "shim/launch/launch.h"\n' > src/shim/life/process.h
expect "edge of one header" ""
printf '#pragma once\n#include "shim/life/process.h"\n' > src/shim/sys/x.h
expect "room that uses nothing" "src/shim/sys/x.h:2: forbidden edge: shim/sys may not include"

clean_tree && sed -i 's/include nothing/include model/' src/base/a.h
expect "main header of a folder" "tests/tidy/edges.txt:1: no header of the folder says: Files of"

# The real edges: the simulator and its report stay out of the daemons, and vice versa.
clean_tree && cp "$here/edges.txt" tests/tidy && texts=()
for edge in control/sim node/sim node/link/sim control/report node/report sim/control sim/node \
    report/control \
    report/node cli/daemon/sim cli/watch/report cli/sim/control; do
    from=src/${edge%/*} to=${edge##*/}
    mkdir -p "$from" && printf '#pragma once\n#include "%s/x.h"\n' "$to" > "$from/$to.h"
    texts+=("$from/$to.h:2: forbidden edge: ${edge%/*} may not include $to/x.h")
done
expect "edges of the simulator" "${texts[@]}"

clean_tree && printf '#include "../base/a.h"\n' >> src/model/m.h
expect "include by relative path" 'src/model/m.h:4: include "../base/a.h"'

clean_tree && for ((i = 0; i < 795; i++)); do echo "// line"; done >> src/base/a.c
expect "long file" "src/base/a.c:802: file of 802 lines"

clean_tree && mkdir -p api docs scripts && for ((i = 0; i < 801; i++)); do echo "# line"; done \
    | tee api/other.yaml > scripts/build
expect "long files" "api/other.yaml:801: file of 801 lines" "scripts/build:801: file of 801 lines"
clean_tree && mkdir api && for ((i = 0; i < 801; i++)); do echo "1"; done \
    | tee api/openapi.yaml data.csv > bench.json
expect "long files that nobody writes" ""

clean_tree && texts=()
for folder in src/model/room emu workloads; do
    mkdir -p $folder
    for ((i = 0; i < 45; i++)); do echo '#pragma once' > $folder/h$i.h; done
    echo '#pragma once' > $folder/a_fixture.h
    touch $folder/{b_test.c,c_fuzz.c} \
        && echo "test($folder/b_test.c $folder/c_fuzz.c)" >> CMakeLists.txt
    texts+=("$folder:1: folder of 46 files, more than 45")
done
expect "full folders" ""
for folder in src/model/room emu workloads; do echo '#pragma once' > $folder/one_more.h; done
expect "crowded folders" "${texts[@]}"

clean_tree && { printf '\nint b_get(void);\nint b_get(void)\n{\n'
    for ((i = 0; i < 68; i++)); do echo "    a_get();"; done
    printf '    return 1;\n}\n'; } >> src/base/a.c
expect "long function" "src/base/a.c:11: function b_get of 71 lines"

clean_tree && line=7 texts=()
for name in strcpy strcat sprintf vsprintf gets strtok atoi atol atof system popen alloca tmpnam \
    mktemp; do
    printf '\n#define EXTRA %s(0)\n' "$name" >> src/base/a.c
    texts+=("src/base/a.c:$((line += 2)): banned function: $name")
done
expect "banned functions" "${texts[@]}"

clean_tree && in_function src/base/a.c '/* strcpy( */ a_get(); // system('
expect "banned name in a comment" ""

clean_tree && in_function src/base/a.c 'text = "atoi(1)";'
expect "banned name in a string" ""

ends='\n#define EXTRA exit(1)\n\n#define MORE abort(1)\n'
# shellcheck disable=SC2059
clean_tree && printf "$ends" >> src/base/a.c
expect "ends in a library" "src/base/a.c:9: a library returns errors" \
    "src/base/a.c:11: a library returns errors"
# shellcheck disable=SC2059
clean_tree && printf "$ends" >> src/base/a_test.c
expect "ends in a test" ""

clean_tree && cp src/base/a_test.c src/base/b_test.c
expect "unregistered unit test" "src/base/b_test.c:1: a test that no CMakeLists.txt runs"

clean_tree && cp src/base/a_test.c src/base/b_fuzz.c
expect "unregistered fuzzer" "src/base/b_fuzz.c:1: a test that no CMakeLists.txt runs"

clean_tree && printf '# run.sh\n' > tests/system/CMakeLists.txt
expect "unregistered system test" "tests/system/run.sh:1: a test that no CMakeLists.txt runs"

clean_tree && mkdir -p tests/net tests/shim/deeper && echo true \
    | tee tests/net/new.sh > tests/shim/deeper/new.sh
expect "unregistered scripts" "tests/net/new.sh:1: a test that no CMakeLists.txt runs" \
    "tests/shim/deeper/new.sh:1: a test that no CMakeLists.txt runs"

clean_tree && mkdir tests/net && cp tests/system/part.sh tests/net/part.sh
expect "namesake of a sourced part" "tests/net/part.sh:1: a test that no CMakeLists.txt runs"
printf '. "$(dirname "$0")/part.sh"\n' > tests/net/cut.sh
printf 'foreach(name IN ITEMS cut)\n    test(${CMAKE_CURRENT_SOURCE_DIR}/${name}.sh)\n' \
    > tests/net/CMakeLists.txt
expect "script of a list" ""
echo true > tests/net/heal.sh
expect "script beside a list" "tests/net/heal.sh:1: a test that no CMakeLists.txt runs"

clean_tree && mkdir tests/torture && cp src/base/a_test.c tests/torture/t.c
expect "unregistered torture test" "tests/torture/t.c:1: a test that no CMakeLists.txt runs"

clean_tree && cp src/base/a_test.c src/model/a.c
expect "dead file" "src/model/a.c:1: a dead file"

clean_tree && printf '\nint counter;\n' >> src/base/a.c
compile_objects && expect "global" "src/base/a.c:9: writable global data: counter"

clean_tree && printf '\nint counter = 3;\n' >> src/base/a_test.c
compile_objects && expect "global in a test" "src/base/a_test.c:8: writable global data: counter"

clean_tree && in_function src/base/a.c 'static int turn; turn++;' \
    && sed -i 's/turn; /turn;\n    /' src/base/a.c
sed -i 's/!= 0/!= 0 \&\& turn > 1/' src/base/a.c
compile_objects && expect "static variable" "src/base/a.c:12: writable global data: turn"
printf 'src/base/a.c turn counts the turns\n' >> tests/tidy/writable.txt
expect "allowed static variable" ""

clean_tree && printf 'src/base/a.c turn counts the turns\n' >> tests/tidy/writable.txt
compile_objects && expect "stale permission" "tests/tidy/writable.txt:2: no such data any more"

clean_tree \
    && printf '\nextern const char *const names[2];\nconst char *const names[2] = {"a", "b"};\n' \
    >> src/base/a.c
compile_objects && expect "constant table of pointers" ""

# Lines of 100 and 101 columns: "é" is one column in two bytes.
clean_tree && mkdir -p cmake x scripts && texts=()
names=(src/base/b.h src/base/b.def tests/x.awk cmake/x.cmake x/CMakeLists.txt NOTES.md \
    scripts/tool x/x.py x/x.yaml x/x.yml)
for name in "${names[@]}"; do
    case $name in
    *.h) echo '#pragma once' > $name && mark='// ' ;;
    *tool) echo '#!/bin/bash' > $name && mark='# ' ;;
    *) mark='# ' ;;
    esac
    printf '%s%0*dé\n' "$mark" $((99 - ${#mark})) 0 >> $name
    texts+=("$name:$(wc -l < $name): line of 101 columns")
done
expect "lines of 100 columns" ""
for name in "${names[@]}"; do sed -i '$s/$/x/' $name; done
expect "long lines" "${texts[@]}"
clean_tree
wide=$(printf '%0100d' 0)
for text in "| $wide |" "see https://a.example/$wide" "see [this]($wide)" \
    '```'$'\n'"$wide $wide"$'\n''```'; do
    echo "$text" > "NOTES.$((++notes)).md"
done
expect "wide tables, links and blocks" ""

clean_tree && line=7 texts=()
for opening in Who Whoever What 'That which' 'One that' 'Those who'; do
    words=${opening,,}
    printf '\n/* %s asks waits. */\n' "$opening" >> src/base/a.c
    texts+=("src/base/a.c:$((line += 2)): a sentence opens with \"$words\"")
    printf 'All is well.\nIt is.\n%s asks,\nwaits.\n' "$opening" > "NOTES.$line.md"
    texts+=("NOTES.$line.md:3: a sentence opens with \"$words\"")
done
expect "openings" "${texts[@]}"
clean_tree
for opening in Who Whoever What 'That which' 'One that' 'Those who'; do
    printf '\n/* Why does it wait? %s asks now? */\n' "$opening" >> src/base/a.c
done
expect "questions" ""
clean_tree && printf '\n/*\n * All is\n * well. What comes\n * goes.\n */\n' >> src/base/a.c
expect "second sentence of a comment" "src/base/a.c:11: a sentence opens"
clean_tree && in_function src/base/a.c 'text = "It is so. "' \
    && sed -i 's/so. "$/&\n           "What comes goes.";/' src/base/a.c
expect "second sentence of a string" "src/base/a.c:13: a sentence opens"
clean_tree \
    && printf '%s\n' '# What it is about' '' '- `what` it says' '| What |' \
    'Nobody knows who asks. *Whoever*' > NOTES.md
expect "openings of what is no sentence" ""
clean_tree && printf '#!/bin/sh\n# All is well. What\n# comes goes.\ntrue\n' > a.sh
expect "comment of a script" "a.sh:2: a sentence opens"
clean_tree && echo '| a | what it is |' > NOTES.md
expect "cell of a table" "NOTES.md:1: a sentence opens"

clean_tree && printf '"""All is well.\n\nWhat comes goes.\n"""\n' > a.py
expect "second paragraph of a docstring" "a.py:3: a sentence opens"
clean_tree && printf 'def f():\n    """What comes goes."""\n    return 1\n' > a.py
expect "docstring of a function" "a.py:2: a sentence opens"
clean_tree && printf 'x = 1\n# All is\n# well. What comes goes.\ny = 2\n' > a.py
expect "second sentence of a comment in Python" "a.py:3: a sentence opens"
clean_tree && printf 'x = 1  # what comes goes\n' > a.py
expect "comment behind Python" "a.py:1: a sentence opens"
clean_tree && printf '%s\n' 'x = """' 'What comes goes.' '"""' 'y = "What comes goes."' > a.py
expect "strings of Python" ""
clean_tree && mkdir -p tests/fuzz/corpus/x && echo "a: $wide$wide" > tests/fuzz/corpus/x/1.yaml
expect "input of a fuzzer" ""

clean_tree && texts=()
for pronoun in It They These Those This One That He; do
    printf 'KEY(a, "b", 1, "the time")\nKEY(b, "this",\n    "%s is the time")\n' $pronoun \
        > src/base/$pronoun.def
    texts+=("src/base/$pronoun.def:3: a help text opens with \"${pronoun,,}\"")
done
expect "help of pronouns" "${texts[@]}"
clean_tree && printf 'KEY(a, "b", "the time. "\n    "It ends then.")\n' > src/base/k.def
expect "second sentence of a help text" ""

clean_tree && echo 'What comes goes.' > NOTES.md && cp NOTES.md src/model/ \
    && echo "// $wide" >> src/model/m.h
printf 'src/base\n' > tests/tidy/prose.txt
expect "unlisted folder" ""
printf 'src/base\nsrc/model width\n' > tests/tidy/prose.txt
expect "listed folder, one rule" "src/model/m.h:4: line of 103 columns"
printf 'src/model/NOTES.md\n' > tests/tidy/prose.txt
expect "listed file" "src/model/NOTES.md:1: a sentence opens"
printf '# FOLDER\nsrc/gone\n' > tests/tidy/prose.txt
expect "stale folder of the list" "tests/tidy/prose.txt:2: no such file or folder: src/gone"
printf 'src/base widht\n' > tests/tidy/prose.txt
expect "unknown rule" "tests/tidy/prose.txt:1: no such rule: widht"

clean_tree && line=0 texts=()
for folder in work farm root home; do
    printf '/%s/x\n' $folder >> NOTES.md
    texts+=("NOTES.md:$((++line)): a path of one machine")
done
expect "machine paths" "${texts[@]}"

clean_tree
for mark in TO FIX; do [ $mark = TO ] && echo "${mark}DO: x" || echo "${mark}ME x"; done > NOTES.md
expect "marks" "NOTES.md:1: a mark of unfinished work" "NOTES.md:2: a mark of unfinished work"

clean_tree && sed -i 's/    return 1/  return 1/' src/base/a.c
expect "layout" "src/base/a.c:5: not laid out by clang-format"

clean_tree && printf 'int b_get(void);\n' > src/base/b.h
expect "header without guard" "src/base/b.h:1: header without #pragma once"

echo "tidy_selftest: $checks checks, $failures failed"
[ $failures = 0 ]
