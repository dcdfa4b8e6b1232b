#!/bin/bash
# links.sh ROOT: checks that every link to a file of this tree is valid, and that every page of
# docs/ can be reached from the README.
set -euo pipefail
cd "$1"
failed=0

# targets PAGE: prints the page's link targets in this tree, one per line and without anchors.
targets() {
    grep -oE '\]\([^)[:space:]]+\)' "$1" | sed -E 's/^\]\(//; s/\)$//; s/#.*//' \
        | grep -vE '^$|^[a-z]+:' || true
}

mapfile -t pages < <(find . \( -name build -o -name dist -o -name .git \) -prune -o -name '*.md' \
    -print)
[ ${#pages[@]} -gt 0 ] || { echo "there are no pages in $1"; exit 1; }
for page in "${pages[@]}"; do
    while IFS= read -r target; do
        [ -e "${page%/*}/$target" ] || { echo "$page: leads nowhere: $target"; failed=1; }
    done < <(targets "$page")
done
of_readme=$(targets README.md)
for page in docs/*.md; do
    grep -qxF "$page" <<< "$of_readme" || { echo "README.md: no link to $page"; failed=1; }
done
exit $failed
