# Reads what "ctest --output-junit" wrote; prints one line a test: pass|fail|skip TAB name TAB reason.
# Only a test that chose to skip (exit status 77) is skipped, and its reason is the last line that it
# printed. One that ctest could not run at all is a failure.

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

/<testcase / {
    test = text(attribute($0, "name"))
    result = attribute($0, "status") == "run" ? "pass" : "fail"
    reason = "no reason given"
}
/<skipped / && attribute($0, "message") ~ /^SKIP_/ { result = "skip" }
/<system-out>/ { in_output = 1 }
in_output && text($0) ~ /[^ ]/ { reason = text($0) }
/<\/system-out>/ { in_output = 0 }
/<\/testcase>/ { print result "\t" test "\t" reason }
