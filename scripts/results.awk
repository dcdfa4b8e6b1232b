# Reads the output of "ctest --output-junit" and prints one line per test: pass|fail|skip TAB name
# TAB reason. A test counts as skipped only if it exited with status 77; the reason is its last line
# of output. A test that ctest could not run is a failure. A test that skipped a part has printed a
# line "skipped: WHY"; each such line, and each case that cmocka skipped, is printed as well.

function text(line)
{
    gsub(/<[^>]*>/, "", line)
    gsub(/&lt;/, "<", line)
    gsub(/&gt;/, ">", line)
    gsub(/&quot;/, "\"", line)
    gsub(/&apos;/, "'", line)
    gsub(/&amp;/, "\\&", line)
    gsub(/\t/, " ", line)
    return line
}

function attribute(line, name)
{
    if (!match(line, " " name "=\"[^\"]*\""))
        return ""
    return substr(line, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
}

function skip_part(why)
{
    parts[++part_count] = (unit_case == "" ? "" : unit_case ": ") why
    told = 1
}

/<testcase / {
    test = text(attribute($0, "name"))
    result = attribute($0, "status") == "run" ? "pass" : "fail"
    reason = "no reason given"
    unit_case = ""
    part_count = told = 0
}
/<skipped / && attribute($0, "message") ~ /^SKIP_/ { result = "skip" }
/<system-out>/ {
    in_output = 1
    sub(/.*<system-out>/, "")
}
in_output {
    line = text($0)
    if (line ~ /[^ ]/)
        reason = line
    if (line ~ /^\[ RUN      \] /) {
        unit_case = substr(line, 14)
        told = 0
    } else if (line ~ /^skipped: /) {
        skip_part(substr(line, 10))
    } else if (line ~ /^\[  SKIPPED \] /) {
        if (!told && line == "[  SKIPPED ] " unit_case)
            skip_part("no reason given")
        unit_case = ""
    } else if (line ~ /^\[==========\]/) {
        unit_case = ""
    }
}
/<\/system-out>/ { in_output = 0 }
/<\/testcase>/ {
    print result "\t" test "\t" reason
    for (i = 1; i <= part_count && result != "skip"; i++)
        print "skip\t" test "\t" parts[i]
}
