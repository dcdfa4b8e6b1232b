#!/bin/bash
# cuts.sh TASKS CUTS: three nodes whose cables are cut and healed at random; see cut_test.c.
. "$(dirname "$0")/lib.sh"
network n1 n2 n3
start_control "${short_lease[@]}" --policy random --set log_level=warn
for node in n1 n2 n3; do add_node $node --emulate 4xH200:24g --set log_level=warn; done
"$GPUMUX_BUILD/tests/net/cut_test" --directory "$work" --journal "$journal" --cables "$net/cables" \
    --tasks "$1" --cuts "$2" n1 n2 n3
for node in n1 n2 n3; do wait_until "$node has settled everything" settled $node; done
no_process "${task/kill_task/[k]ill_task} $journal" || fail "a task is left behind"
