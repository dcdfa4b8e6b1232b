# For tests that run commands of the documentation. A page says above a block who runs it, if it is
# not system/docs_PAGE, which runs those marked ```sh run:
#
#     <!-- run by system/machine -->
#     ```sh
#     systemctl enable --now gpumux
#     ```
#
# The test of that name takes each block with page_block, and says with all_followed that it left
# none out; docs/commands fails for a block without a mark, and for a mark whose test does neither.
# Sourced, with fail() or die() defined, at the top of the tree.
# shellcheck shell=bash

# A block is known by its page and line; the ones that were taken are noted in a file, for subshells
# and a script's second half in other namespaces do it too.
export FOLLOWED_BLOCKS=${FOLLOWED_BLOCKS:-$(mktemp)}

# marked_blocks RUNNER PAGE...: "PAGE:LINE" and a tab before each line of the blocks that are marked
# so.
marked_blocks() {
    awk -v mark="<!-- run by $1 -->" '
        /^```/ && inside { inside = 0; next }
        $0 == "```sh" && before == mark { inside = 1; block = FILENAME ":" FNR; next }
        inside { print block "\t" $0 }
        { before = $0 }' "${@:2}"
}

# page_block RUNNER PAGE TEXT: the commands of the only block marked so that has TEXT in it.
page_block() {
    local lines block
    lines=$(marked_blocks "$1" "$2")
    block=$(grep -F -- "$3" <<< "$lines" | cut -f 1 | sort -u)
    [ "$(wc -w <<< "$block")" = 1 ] || { echo "$2: not one block run by $1 has: $3" >&2; return 1; }
    echo "$block" >> "$FOLLOWED_BLOCKS"
    awk -F '\t' -v block="$block" '$1 == block { print substr($0, length(block) + 2) }' <<< "$lines"
}

# all_followed RUNNER: whether every block marked so was taken, and there was one.
all_followed() {
    local blocks left
    blocks=$(marked_blocks "$1" README.md docs/*.md | cut -f 1 | sort -u)
    left=$(comm -23 <(echo "$blocks") <(sort -u "$FOLLOWED_BLOCKS"))
    rm -f "$FOLLOWED_BLOCKS"
    [ -n "$blocks" ] && [ -z "$left" ] \
        || { echo "marked as run by $1, and not run: ${left:-nothing is marked so}" >&2; return 1; }
}
