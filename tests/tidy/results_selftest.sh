#!/bin/bash
# Proves that the summary of scripts/test omits nothing: results.awk reads the ctest output of tests
# that pass, fail and skip, as a whole or in part.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cat > group << 'END'
[==========] Running 4 test(s).
[ RUN      ] test_strangers
skipped: needs root & <more>
[  SKIPPED ] test_strangers
[ RUN      ] test_silent
[  SKIPPED ] test_silent
[ RUN      ] test_narrow
skipped: 3 answers
[       OK ] test_narrow
[ RUN      ] test_whole
[       OK ] test_whole
[==========] 4 test(s) run.
[  PASSED  ] 2 test(s).
[  SKIPPED ] 2 test(s), listed below:
[  SKIPPED ] test_strangers
[  SKIPPED ] test_silent

 2 SKIPPED TEST(S)
END
cat > CTestTestfile.cmake << 'END'
add_test(group sh -c "seq 1000 && cat group")
add_test(script sh -c "echo 'skipped: a part' && echo done")
add_test(none sh -c "echo 'nothing was skipped: all is well'")
add_test(whole sh -c "echo first && echo 'skipped: no tool' && exit 77")
set_tests_properties(whole PROPERTIES SKIP_RETURN_CODE 77)
add_test(broken sh -c "echo 'skipped: a part' && false")
add_test(absent ./absent)
END
ctest --test-output-size-passed 1048576 --output-junit results.xml > log 2>&1 || true
awk -f "$here/../../scripts/results.awk" results.xml | cut -f 1,2 > results
awk -f "$here/../../scripts/results.awk" results.xml | sed -n 's/^skip\t//p' > skips
diff - results << 'END'
pass	group
skip	group
skip	group
skip	group
pass	script
skip	script
pass	none
skip	whole
fail	broken
skip	broken
fail	absent
END
diff - skips << 'END'
group	test_strangers: needs root & <more>
group	test_silent: no reason given
group	test_narrow: 3 answers
script	a part
whole	skipped: no tool
broken	a part
END
