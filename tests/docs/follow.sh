# Functions for tests that run commands of the documentation. A mark above a block names the test
# that runs the block, unless it is system/docs_PAGE, which runs the blocks ```sh run:
#
#     <!-- run by system/machine -->
#     ```sh
#     systemctl enable --now gpumux
#     ```
#
# The named test takes each block with page_block, and checks with all_followed that no block is
# left. docs/commands fails for a block without a mark, and for a mark whose test does neither.
# Sourced at the top of the tree; the caller defines fail() or die().
# shellcheck shell=bash

# A block is identified by its page and line. The blocks taken are recorded in a file, because
# subshells and the second half of a script in other namespaces take blocks as well.
export FOLLOWED_BLOCKS=${FOLLOWED_BLOCKS:-$(mktemp)}

# marked_blocks RUNNER PAGE...: prints "PAGE:LINE" and a tab before each line of the blocks with
# this mark.
marked_blocks() {
    awk -v mark="<!-- run by $1 -->" '
        /^```/ && inside { inside = 0; next }
        $0 == "```sh" && before == mark { inside = 1; block = FILENAME ":" FNR; next }
        inside { print block "\t" $0 }
        { before = $0 }' "${@:2}"
}

# page_block RUNNER PAGE TEXT: prints the commands of the only block with this mark that contains
# TEXT.
page_block() {
    local lines block
    lines=$(marked_blocks "$1" "$2")
    block=$(grep -F -- "$3" <<< "$lines" | cut -f 1 | sort -u)
    [ "$(wc -w <<< "$block")" = 1 ] || { echo "$2: not one block run by $1 has: $3" >&2; return 1; }
    echo "$block" >> "$FOLLOWED_BLOCKS"
    awk -F '\t' -v block="$block" '$1 == block { print substr($0, length(block) + 2) }' <<< "$lines"
}

# all_followed RUNNER: returns whether every block with this mark was taken, and at least one.
all_followed() {
    local blocks left
    blocks=$(marked_blocks "$1" README.md docs/*.md | cut -f 1 | sort -u)
    left=$(comm -23 <(echo "$blocks") <(sort -u "$FOLLOWED_BLOCKS"))
    rm -f "$FOLLOWED_BLOCKS"
    [ -n "$blocks" ] && [ -z "$left" ] \
        || { echo "marked as run by $1, and not run: ${left:-nothing is marked so}" >&2; return 1; }
}
