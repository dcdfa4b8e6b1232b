"""The tuner on surfaces interpolated from the measured tables, beside random search."""
import os

import rows

NEVER = 1e6


def rounds(count):
    return "never" if count >= NEVER else f"{count:.0f}"


for tasks, cpu_ms in ((2, 10), (4, 30)):
    line = rows.tool("tuner_bench", os.path.join(rows.SOURCE, "data"), tasks, 0, 100)
    v = rows.values(line)
    needed, random = v["rounds_needed"], v["random_needed"]
    gated = tasks == 2
    rows.row(f"tuner, {tasks} tasks, 100 seeds, noise 5 %: rounds to a regret of 3 %, median",
             "<= 17" if gated else "(reported)", rounds(needed),
             needed <= 17 if gated else None, line=line.strip())
    rows.row("the same, against random search", "at most half" if gated else "(reported)",
             f"{rounds(needed)} : {rounds(random)}", needed <= random / 2 if gated else None)
    rows.row("the same: regret at the end, median and p90", "(reported)",
             f"{100 * v['regret']:.1f} %, {100 * v['regret_p90']:.1f} %", None)
    rows.row("the same: CPU of a whole search, most of all", f"<= {cpu_ms} ms",
             f"{v['cpu_ms_max']:.1f} ms", v["cpu_ms_max"] <= cpu_ms)
