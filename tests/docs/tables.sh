#!/bin/bash
# tables.sh ROOT: compares every table in the documentation that repeats a list of the code with
# that list.
#
# A page marks such tables:
#
#     <!-- table of src/wire/config.def -->
#     | key | default | meaning |
#     |---|---|---|
#     | `lease` | `60s` | … |
#     <!-- end of table -->
#
# The `` spans in the leading columns must equal the list, row by row. The lines below define the
# number of columns and the way to read each list.
set -euo pipefail
cd "$1"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# rows PAGE LIST COLUMNS: prints the marked rows of a page as "a b c", from their leading columns.
rows() {
    awk -F '|' -v mark="<!-- table of $2 -->" -v columns="$3" '
        $0 == mark { inside = 1; next }
        $0 == "<!-- end of table -->" { inside = 0 }
        inside && $2 ~ /`/ {
            line = ""
            for (i = 2; i < 2 + columns; i++) {
                cell = $i
                gsub(/^ +| +$|`/, "", cell)
                line = line (i > 2 ? " " : "") cell
            }
            print line
        }' "$1" | sort
}

# compare PAGE LIST COLUMNS: compares the page with the list on standard input.
compare() {
    sort > "$work/code"
    rows "$1" "$2" "$3" > "$work/page"
    if [ ! -s "$work/code" ]; then
        echo "$2: nothing was found in it: tables.sh does not read it right"
        touch "$work/failed"
    fi
    comm -23 "$work/code" "$work/page" | sed "s|.*|$1: missing, says $2: &|" > "$work/difference"
    comm -13 "$work/code" "$work/page" | sed "s|.*|$1: not so in $2: &|" >> "$work/difference"
    if [ -s "$work/difference" ]; then
        cat "$work/difference"
        touch "$work/failed"
    fi
}

spec=src/wire/spec_schema.def
sed -nE 's/^SPEC_KEY\("([^"]*)",.*/\1/p' $spec | compare docs/submit.md $spec 1

config=src/wire/config.def
sed -nE 's/^CONFIG_PAIRS\([a-z_]+, "([^"]*)", ([A-Z]+),.*/\1 {} \L\2/p
         s/^CONFIG_(STRING|NUMBER|DURATION|BYTES|FLAG)\([a-z_]+, "([^"]*)", ([A-Z]+), '\
'"?([^",]*)"?,.*/\2 \4 \L\3/p' $config \
    | sed -E 's/  / "" /' | compare docs/operate.md $config 3

# Each key must be read by the daemon that the list names, because an unread member is a setting
# without effect. members FOLDER...: prints the members of the configuration that the folders read.
members() {
    grep -rhoE --include='*.c' --exclude='*_test.c' '(\bc->)?\bconfig(\.|->)[a-z_]+|\bc->[a-z_]+' \
        "$@" | sed -E 's/.*[.>]//; s/_(ms|bytes)$//' | sort -u
}
sed -nE 's/^CONFIG_[A-Z]+\(([a-z_]+), "[^"]*", (CONTROL|BOTH),.*/\1/p' $config | sort \
    | comm -23 - <(members src/control src/cli/daemon src/wire/config.c) \
    | sed "s|.*|$config: &: control does not read it|" > "$work/unread"
sed -nE 's/^CONFIG_[A-Z]+\(([a-z_]+), "[^"]*", (NODE|BOTH),.*/\1/p' $config | sort \
    | comm -23 - <(members src/node src/cli/daemon) \
    | sed "s|.*|$config: &: no node reads it|" >> "$work/unread"
if [ -s "$work/unread" ]; then
    cat "$work/unread"
    touch "$work/failed"
fi

environment=src/node/attempt/environment.def
sed -nE 's/^ENVIRONMENT\(([A-Z_]+),.*/\1/p' $environment \
    | compare docs/environment.md $environment 1

# Variables that only the shim's tests set are not documented.
shim=src/shim
find $shim -name '*.c' ! -name fault_point.c -exec grep -ohE '"GPUMUX_[A-Z_]+"' {} + | tr -d '"' \
    | sort -u | compare docs/internals.md $shim 1

events=src/cluster/events.def
sed -nE 's/^EVENT\(([a-z_]+),.*/\1/p' $events | compare docs/states.md $events 1

errors=api/errors.def
sed -nE 's/^ERROR\([A-Z_]+, ([0-9]+), ([0-9]+), "([^"]*)",.*/\3 \2 \1/p' $errors \
    | compare docs/api.md $errors 3

metrics=src/control/nodes.c
grep -oE '"gpumux_[a-z_]+"' $metrics | tr -d '"' | sort -u | compare docs/operate.md $metrics 1
metrics=src/control/service_metrics.c
grep -oE '"gpumux_[a-z_]+"' $metrics | tr -d '"' | sort -u | compare docs/operate.md $metrics 1

models=emu/device/models.def
sed -nE 's/^MODEL\("([A-Za-z0-9]+)",.*/\1/p' $models | compare docs/emulator.md $models 1

calls=src/client/gpumux.h
grep -oE '\bgpumux_[a-z_]+\(' $calls | tr -d '(' | sort -u | compare docs/client.md $calls 1

policies=src/policy/registry.c
grep -oE '&policy_[a-z_]+' $policies | sed 's/^&policy_//' | compare docs/operate.md $policies 1

edges=tests/tidy/edges.txt
sed -nE 's/[[:space:]]+/ /g; s/ $//; s/^([a-z_]+(\/[a-z_]+)*(\.[ch])?): ?(.*)/\1 \4/p' $edges \
    | sed -E 's/ $/ nothing/' | compare ARCHITECTURE.md $edges 2

find data -name '*.csv' -printf '%f\n' | compare data/README.md data 1

# A picture and the table above it: the median completion of each policy in the legend.
picture=docs/images/sim-times.svg
sed -nE 's/^<text x="821" y="[0-9]+">([a-z]+)<\/text>$/\1/p
         s/^<text x="956" .*>([0-9.]+) min<\/text>$/\1/p' $picture | paste -d ' ' - - \
             | sort > "$work/code"
awk '$1 == "LOAD" { inside = 1; next } /^```/ { inside = 0 } inside { print $2, $5 }' \
    docs/simulate.md | sort > "$work/page"
if [ ! -s "$work/code" ] || ! cmp -s "$work/code" "$work/page"; then
    echo "docs/simulate.md: the medians of its table are not those of $picture"
    touch "$work/failed"
fi

[ ! -e "$work/failed" ]
