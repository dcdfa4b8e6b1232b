# The rules about English and the width of lines, for the paths in prose_file. Prints FILE:LINE:
# MESSAGE.
#
# width     A line has at most 100 columns, not counting URLs and the targets of links. Tables and
#           fenced blocks of Markdown may be wider.
# openings  No sentence of a comment, a C string, a docstring of Python, or Markdown opens with a
#           clause (who, what, …), unless the sentence is a question. No help text of a .def file
#           opens with a pronoun. Headings, and fragments of one or two words, are no sentences.

BEGIN {
    columns_max = 100
    clause = "^(who|whoever|what|that which|one that|those who) "
    pronoun = "^(it|its|they|their|them|these|those|this|that|one|ones|he|she|such) "
    while ((getline line < prose_file) > 0) {
        sub(/#.*/, "", line)
        if (split(line, word, " ") == 0)
            continue
        rules[word[1]] = rules[word[1]] " " (word[2] == "" ? "width openings" : word[2]) " "
    }
}

function breach(line, message)
{
    print path ":" line ": " message
}

# Returns whether the rule applies to the path, by a line for the path, for a folder above it, or
# for the whole tree, ".".
function holds(rule, place)
{
    while (index(rules[place], " " rule " ") == 0) {
        if (place == ".")
            return 0
        if (!sub(/\/[^\/]*$/, "", place))
            place = "."
    }
    return 1
}

function check_width(line)
{
    if (is_markdown && (line ~ /^\|/ || in_fence))
        return
    gsub(/https?:\/\/[^ )>]*|\]\([^)]*\)/, "", line)
    gsub(/[\200-\277]/, "", line) # continuation bytes of a character
    if (length(line) > columns_max)
        breach(FNR, "line of " length(line) " columns, more than " columns_max)
}

# Checks one sentence, or the end of one.
function check_sentence(text)
{
    sub(/^[ "*_(]+/, "", text)
    text = tolower(text)
    if (text !~ /^[^ ]+ +[^ ]+ +[^ ]/)
        return
    if (match(text, clause) && text !~ /\?["*_) ]*$/)
        breach(text_line, "a sentence opens with \"" substr(text, 1, RLENGTH - 1) \
            "\": begin with its subject")
    if (is_help && match(text, pronoun))
        breach(text_line, "a help text opens with \"" substr(text, 1, RLENGTH - 1) \
            "\": name its subject")
    is_help = 0
}

# Adds a piece to the text, and checks every sentence that is now complete.
function gather(piece)
{
    gsub(/[ \t]+/, " ", piece)
    if (text == "")
        text_line = FNR
    text = text (text == "" ? "" : " ") piece
    has_begun = 1
    split_text()
}

function split_text(    sentence)
{
    while (match(text, /[.!?]["*_)]* /)) {
        sentence = substr(text, 1, RSTART + RLENGTH - 2)
        text = substr(text, RSTART + RLENGTH)
        check_sentence(sentence)
        text_line = FNR
    }
}

function end_text()
{
    sub(/ +$/, "", text)
    check_sentence(text)
    text = ""
    is_help = has_begun = 0
}

# Handles a line of a comment. An empty line ends a paragraph, a mark starts an item of a list.
function comment_line(piece)
{
    sub(/^[ \t]*\**[ \t]?/, "", piece)
    sub(/[ \t\\*]+$/, "", piece)
    if (piece ~ /^[ \t]*$/ || piece ~ /^[ \t]*[-•] /)
        end_text()
    sub(/^[ \t-]+/, "", piece)
    if (piece != "")
        gather(piece)
}

function c_line(line,    mark, before)
{
    if (line ~ /^# *include/)
        return
    while (line != "") {
        if (in_comment) {
            if (!match(line, /\*\//)) {
                comment_line(line)
                return
            }
            before = substr(line, 1, RSTART - 1)
            line = substr(line, RSTART + 2)
            comment_line(before)
            end_text()
            in_comment = 0
        }
        mark = ""
        before = line
        if (match(line, /"([^"\\]|\\.)*"|'([^'\\]|\\.)*'|\/\*|\/\//)) {
            before = substr(line, 1, RSTART - 1)
            mark = substr(line, RSTART, RLENGTH)
        }
        line = substr(line, length(before mark) + 1)
        # Strings separated only by space or macros like PRIu64 form one text.
        if (before !~ /^[ \t\\]*(PRI[A-Za-z0-9]+)?[ \t\\]*$/)
            end_text()
        if (mark ~ /^"/) {
            string(substr(mark, 2, length(mark) - 2))
        } else if (mark == "/*") {
            end_text()
            in_comment = 1
        } else if (mark == "//") {
            end_text()
            comment_line(line)
            end_text()
            return
        }
    }
}

# Appends a string to the text, without a space.
function string(piece)
{
    gsub(/\\[nt]/, " ", piece)
    gsub(/\\/, "", piece)
    if (piece == "")
        return
    if (text == "") {
        is_help = is_definitions && !has_begun
        gather(piece)
    } else {
        text = text piece
        split_text()
    }
}

# Handles a line of Python. A string in three quotes is a docstring if its line begins with the
# quotes; comments on successive lines form one text.
function python_line(line,    quotes)
{
    quotes = gsub(/"""/, "&", line)
    if (in_docstring || in_string) {
        if (in_docstring)
            comment_line(quotes ? substr(line, 1, index(line, "\"\"\"") - 1) : line)
        if (quotes) {
            end_text()
            in_docstring = in_string = 0
        }
    } else if (sub(/^[ \t]*"""/, "", line)) {
        end_text()
        in_docstring = quotes == 1
        sub(/""".*/, "", line)
        comment_line(line)
        if (!in_docstring)
            end_text()
    } else if (sub(/^[ \t]*#/, "", line)) {
        comment_line(line)
    } else {
        end_text()
        in_string = quotes % 2
        if (match(line, /  # /)) {
            comment_line(substr(line, RSTART + RLENGTH))
            end_text()
        }
    }
}

# Handles a line of a script or a build file: comments on successive lines form one text.
function script_line(line)
{
    if (line !~ /^[ \t]*#[^!]/) {
        end_text()
        return
    }
    sub(/^[ \t]*#+/, "", line)
    comment_line(line)
}

function markdown_line(line,    cell, count, i)
{
    if (line ~ /^ *```/) {
        end_text()
        in_fence = !in_fence
        return
    }
    if (in_fence)
        return
    gsub(/`[^`]*`/, "code", line)
    gsub(/<!--[^>]*-->|\]\([^)]*\)/, "", line)
    gsub(/\[/, "", line)
    if (line ~ /^ *$/ || line ~ /^#/ || line ~ /^ *([-*]|[0-9]+\.) / || line ~ /^\|/)
        end_text()
    if (line ~ /^#/)
        return
    if (line !~ /^\|/) {
        sub(/^[ >]*([-*] |[0-9]+\. )?/, "", line)
        if (line != "")
            gather(line)
        return
    }
    count = split(line, cell, "|")
    for (i = 1; i <= count; i++) {
        gather(cell[i])
        end_text()
    }
}

FNR == 1 {
    end_text()
    path = FILENAME
    is_markdown = FILENAME ~ /\.md$/
    is_definitions = FILENAME ~ /\.def$/
    is_python = FILENAME ~ /\.py$/
    is_c = FILENAME ~ /\.[ch]$/ || is_definitions
    wants_width = holds("width", FILENAME)
    wants_openings = holds("openings", FILENAME)
    in_comment = in_fence = in_docstring = in_string = 0
}
wants_width { check_width($0) }
wants_openings && is_c { c_line($0) }
wants_openings && is_python { python_line($0) }
wants_openings && is_markdown { markdown_line($0) }
wants_openings && !is_c && !is_python && !is_markdown { script_line($0) }
is_markdown && !wants_openings && /^ *```/ { in_fence = !in_fence }
END { end_text() }
