#!/bin/bash
# gpumux sim as a command: rejected options, results that do not depend on threads, and resumption
# of interrupted campaigns.
. "$(dirname "$0")/lib.sh"
stage_build
command -v jq > /dev/null || skip "jq is not installed"

for wrong in '--policy nonsense' '--policy gpumux-wings' '--nodes 4xH300' '--jobs 0' '--jobs 2.5' \
    '--seed 1.5' '--nodes 1x4294967297xH200' '--rate 1 --load 1' '--mix gpt=1' \
    '--seed -1' '--explain 301' '--without wings' '--load 1,,2' '--ablate wings' \
    '--ablate tuner --without gate' \
    '--policy exclusive --ablate tuner' '--policy mps,mps' '--policy firstfit-tuner' \
    '--policy gpumux,mps-matching'; do
    # shellcheck disable=SC2086
    exits 2 "$gpumux" sim $wrong
done
exits 2 "$gpumux" sim --policy firstfit-tuner
said "firstfit has no part 'tuner'"
exits 0 "$gpumux" sim --policy gpumux-tuner,firstfit --jobs 3
exits 2 "$gpumux" sim --mix foo=1
said "the model 'foo' was not measured; the measured models are .*resnet50.*bert"
exits 1 "$gpumux" sim --trace "$work/none.csv"
said 'none.csv; .* philly, '
printf 'submit_s,duration_s\n0,x\n' > "$work/bad.csv"
exits 2 "$gpumux" sim --trace "$work/bad.csv"
said 'bad.csv: line 2'
exits 2 "$gpumux" sim --trace - < "$work/bad.csv"
said 'sim: line 2'
exits 0 "$gpumux" sim --jobs 1
said '^- *gpumux' # a workload that arrives at once is no load
exits 0 "$gpumux" sim --jobs 5 --services 3 --policy exclusive,firstfit --nodes 1x1xH200:24g
said '^gpumux: sim: 2 of 3 services could not be placed under exclusive$'
[ "$(grep -c 'could not be placed' "$work/err")" = 1 ] \
    || fail "one that found a place is said to have none: $(cat "$work/err")"

# A table from standard input, and its result as JSON.
printf 'submit_s,duration_s,gpus,model\n0,100,1,gin\n5,200,2,bert\n' \
    | "$gpumux" sim --trace - --nodes 2xH200 --policy exclusive --json > "$work/json"
jq -e '.runs[0] | .succeeded == 2 and .makespan_s > 300 and .makespan_s < 320' "$work/json" \
    > /dev/null \
    || fail "not what two tasks one after the other take: $(cat "$work/json")"
# A job larger than a node gets whole nodes and is counted apart; services do not count as tasks.
printf 'submit_s,duration_s,gpus,model\n0,100,3,gin\n5,200,2,bert\n9,100,9,gin\n' \
    > "$work/large-ones.csv"
"$gpumux" sim --trace "$work/large-ones.csv" --out "$work/split" --nodes 2x2xH200 --policy gpumux \
    --services 1 --json > "$work/json"
jq -e '.runs[0] | .multi == 3 and .split == 1 and .submitted == 3
    and .submitted == .succeeded + .failed + .unfinished' \
    "$work/json" > /dev/null || fail "the counts of tasks do not add up: $(cat "$work/json")"
grep -q '3 of several devices, 1 of them larger than a node' "$work/split/report.html" \
    || fail 'the report does not count what was split'
"$gpumux" sim --jobs 5 --explain 3 --json > "$work/json"
jq -e '.policy == "gpumux" and ([.candidates[] | select(.chosen)] | length == 1)
    and .candidates[0].alike >= 1' "$work/json" > /dev/null \
    || fail "no explanation: $(cat "$work/json")"
exits 0 "$gpumux" sim --jobs 5 --explain 3
said '^DEVICE .* ALIKE .* PD .* GAIN .* WHY$'
said '^n[0-9]*:[0-9]* '
said '^GAIN  *RELATIVE'
printf 'submit_s,duration_s,gpus\n0,100,9\n' > "$work/large.csv"
exits 0 "$gpumux" sim --trace "$work/large.csv" --nodes 2xH200 --policy exclusive
said 'exclusive  *-  *-  *-' # no task has ended, so there are no times
mkdir -m 555 "$work/read-only"
user=() # root may write anywhere
[ "$(id -u)" != 0 ] || user=(as 65534)
exits 1 "${user[@]}" "$gpumux" sim --trace "$work/large.csv" --out "$work/read-only"
said 'cannot write into'
exits 1 "$gpumux" sim --trace "$work/large.csv" --nodes 2xH200 --explain 1
said 'larger than every node'
"$gpumux" sim --validate h200_train_pairs.csv --json | jq -e '.error_mean <= 0.08' > /dev/null \
    || fail 'the model is off'

campaign=(--policy exclusive,firstfit,kernelest,gpumux --jobs "${SIM_JOBS:-30}" --load 1,3 --seeds \
    2 --services 2 --faults 5 --nodes 1x4xH200:24g)
"$gpumux" sim "${campaign[@]}" --threads 1 --out "$work/one" > "$work/one.txt"
"$gpumux" sim "${campaign[@]}" --threads 3 --out "$work/three" > "$work/three.txt"
cmp "$work/one.txt" "$work/three.txt"
diff -r "$work/one" "$work/three" > /dev/null \
    || fail 'the number of threads changes what is written'
[ "$(find "$work/one" -name '*.workloads.csv' | wc -l)" = 16 ] \
    || fail 'not every run has its workloads'

# A seed has the same meaning in every campaign, so a campaign may reuse another's runs.
"$gpumux" sim --policy firstfit --jobs 20 --load 2 --seeds 2 --out "$work/seeds" > "$work/out"
"$gpumux" sim --policy firstfit --jobs 20 --load 2 --seed 2 --out "$work/second" > "$work/out"
cmp "$work/seeds/firstfit_load-2_seed-2.workloads.csv" \
    "$work/second/firstfit_load-2_seed-2.workloads.csv" \
    || fail 'what a seed gives depends on the first seed of its campaign'

# The report: present results have a figure, missing ones a hint, and no text counts as markup.
report=$work/one/report.html
for figure in distributions-1 distributions-2 utilisation devices-1 devices-4 slo sensitivity; do
    grep -q "<svg id=\"figure-$figure\" " "$report" || fail "the report has no figure $figure"
done
grep -q '<h2 id="summary">' "$report" || fail 'the report has no summary'
grep -A 1 '<h2 id="ablation">' "$report" | grep -q -- '--ablate' \
    || fail 'the report does not say how to get an ablation'
sed 's|</*span>||g' "$report" \
    | grep "<pre>gpumux sim --nodes 1x4xH200:24g --policy exclusive,firstfit,kernelest,gpumux .*"\
"--seeds 2</pre>" > /dev/null \
    || fail 'the report does not say how it was made'
printf 'submit_s,duration_s,model\n0,100,gin\n5,200,bert\n' > "$work/<i>'s.csv"
"$gpumux" sim --trace "$work/<i>'s.csv" --nodes 2xH200 --policy iadeep,exclusive --ablate \
    tuner,optimizer,gate --out "$work/parts" > "$work/out"
[ "$(cut -d , -f 1 "$work/parts/summary.csv" | tail -n +2 | tr '\n' ',')" \
    = 'iadeep,iadeep without tuner,iadeep without optimizer,'\
'iadeep without tuner without optimizer,exclusive,' ] \
    || fail "not each part once, and all: $(cat "$work/parts/summary.csv")"
grep -q '<svg id="figure-ablation" ' "$work/parts/report.html" || fail 'the report has no ablation'
! grep -q '<i>' "$work/parts/report.html" || fail 'the name of a file is markup in the report'

# Interrupted after some runs, then resumed.
"$gpumux" sim "${campaign[@]}" --threads 1 --out "$work/cut" > "$work/cut.txt" 2> "$work/err" &
cut=$!
until ls "$work/cut"/*.result > /dev/null 2>&1 || ! kill -0 $cut 2> /dev/null; do sleep 0.01; done
kill -INT $cut 2> /dev/null || true
wait $cut || true
"$gpumux" sim "${campaign[@]}" --threads 2 --out "$work/cut" > "$work/cut.txt"
cmp "$work/one.txt" "$work/cut.txt"
diff -r "$work/one" "$work/cut" > /dev/null || fail 'what was resumed differs'

# A damaged result is computed again.
first=$(find "$work/cut" -name 'gpumux*.result' | sort | head -n 1)
printf 'x' | dd of="$first" bs=1 seek=200 conv=notrunc 2> /dev/null
"$gpumux" sim "${campaign[@]}" --out "$work/cut" > "$work/cut.txt"
diff -r "$work/one" "$work/cut" > /dev/null || fail 'a damaged result was taken up'

# The workloads of a run are a valid trace.
"$gpumux" sim --trace "$work/one/exclusive_load-1_seed-1.workloads.csv" --nodes 4xT4 --policy \
    firstfit > "$work/out"
said extrapolated
