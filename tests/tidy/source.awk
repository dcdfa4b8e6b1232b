# The rules about the text of C files: sizes of functions, includes, banned functions. Prints
# FILE:LINE: MESSAGE. edges_file has the list of allowed edges between folders.

BEGIN {
    function_lines_max = 70
    banned = "strcpy strcat sprintf vsprintf gets strtok atoi atol atof system popen alloca " \
        "tmpnam mktemp"
    while ((getline line < edges_file) > 0) {
        sub(/#.*/, "", line)
        if (split(line, side, ":") < 2)
            continue
        from = side[1]
        gsub(/ /, "", from)
        known[from] = 1
        count = split(side[2], target, " ")
        for (i = 1; i <= count; i++)
            edge[from, target[i]] = 1
    }
    banned_count = split(banned, banned_name, " ")
}

function breach(line, message)
{
    print FILENAME ":" line ": " message
}

# Returns the top folder, NAME for src/NAME/... and NAME/....
function folder_of(path,    part)
{
    sub(/^src\//, "", path)
    split(path, part, "/")
    return part[1]
}

# Returns the room of a file: NAME/ROOM if the edges list that room, otherwise NAME.
function room_of(path,    part)
{
    sub(/^src\//, "", path)
    split(path, part, "/")
    return part[2] !~ /\./ && (part[1] "/" part[2]) in known ? part[1] "/" part[2] : part[1]
}

# Returns whether `from` may include `to`. An edge to a folder covers all of its rooms; inside a
# folder each room is named.
function may_include(from, to)
{
    return ((from, to) in edge) || (folder_of(to) != folder && ((from, folder_of(to)) in edge))
}

# Returns the line without comments and without the content of strings. in_comment persists across
# lines.
function code_of(line,    code, mark)
{
    code = ""
    while (line != "") {
        if (in_comment) {
            if (!match(line, /\*\//))
                return code
            line = substr(line, RSTART + 2)
            in_comment = 0
        }
        if (!match(line, /"([^"\\]|\\.)*"|'([^'\\]|\\.)*'|\/\*|\/\//))
            return code line
        mark = substr(line, RSTART, 2)
        code = code substr(line, 1, RSTART - 1)
        if (mark == "//")
            return code
        line = substr(line, RSTART + RLENGTH)
        if (mark == "/*")
            in_comment = 1
        else
            code = code "\"\""
    }
    return code
}

function calls(code, name)
{
    return code ~ ("(^|[^A-Za-z0-9_])" name "[ ]*\\(")
}

function check_include(target,    to, base, inner)
{
    base = target
    sub(/.*\//, "", base)
    if (target ~ /\.\./) {
        if (target !~ /^(\.\.\/)+api\/[a-z_]*\.def$/)
            breach(FNR, "include \"" target "\": write it from src/, as \"folder/name.h\"")
        return
    }
    inner = index(target, "/") ? target : directory "/" target
    to = room_of(inner)
    if (base ~ /_internal\.h$/ &&
        index(directory "/", substr(inner, 1, length(inner) - length(base))) != 1)
        breach(FNR, target " is internal to " to "/")
    if (to == room || room == folder && folder_of(to) == folder || in_tests)
        return
    if (!(folder in known))
        breach(FNR, "folder " folder " is not listed in " edges_file)
    else if (!may_include(room, to) && !may_include(inner_path, to))
        breach(FNR, "forbidden edge: " room " may not include " target " (" edges_file ")")
}

function check_calls(code,    i)
{
    for (i = 1; i <= banned_count; i++)
        if (index(code, banned_name[i]) && calls(code, banned_name[i]))
            breach(FNR, "banned function: " banned_name[i])
    if (!may_exit && (calls(code, "exit") || calls(code, "abort")))
        breach(FNR, "a library returns errors, it does not call exit or abort")
}

function end_file()
{
    if (path ~ /\.h$/ && !pragma_once)
        print path ":1: header without #pragma once"
}

FNR == 1 {
    end_file()
    path = FILENAME
    inner_path = path
    sub(/^src\//, "", inner_path)
    folder = folder_of(path)
    room = path ~ /_(test|fuzz|fixture)\.[ch]$/ ? folder : room_of(path)
    directory = inner_path
    sub(/\/[^\/]*$/, "", directory)
    in_tests = path ~ /^(tests|bench)\//
    may_exit = in_tests || path ~ /^(src\/cli|workloads)\// || path ~ /_(test|fuzz|fixture)\.c$/
    in_comment = 0
    pragma_once = 0
    function_line = 0
}
/^#pragma once/ { pragma_once = 1 }
/^# *include *"/ {
    split($0, quoted, "\"")
    check_include(quoted[2])
    next
}
{ check_calls(code_of($0)) }
/^[A-Za-z_].*\(/ {
    function_name = $0
    sub(/\(.*/, "", function_name)
    sub(/.*[ *]/, "", function_name)
}
/^\{/ { function_line = FNR }
/^\}/ {
    if (function_line && FNR - function_line + 1 > function_lines_max)
        breach(function_line, "function " function_name " of " FNR - function_line + 1 \
            " lines, more than " function_lines_max)
    function_line = 0
}
END { end_file() }
