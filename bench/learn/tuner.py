"""The tuner on surfaces interpolated from the measured tables, beside random search."""
import os

import rows

for tasks, cpu_ms in ((2, 10), (4, 30)):
    line = rows.tool("tuner_bench", os.path.join(rows.SOURCE, "data"), tasks, 0, 100)
    v = rows.values(line)
    needed, random, regret = v["rounds_needed"], v["random_needed"], v["regret"]
    bars = (needed <= 17, needed <= random / 2) if tasks == 2 else (None, None)
    rows.row(f"tuner, {tasks} tasks, 100 seeds, noise 5 %: rounds to a regret of 3 %, median", "<= 17", f"{needed:.0f}",
             bars[0], line=line.strip())
    rows.row("the same, against random search", "at most half", f"{needed:.0f} : {random:.0f}", bars[1])
    rows.row("the same: regret at the end, median and p90", "(reported)", f"{100 * regret:.1f} %, {100 * v['regret_p90']:.1f} %",
             None)
    rows.row(f"the same: CPU of a whole search, most of all", f"<= {cpu_ms} ms", f"{v['cpu_ms_max']:.1f} ms",
             v["cpu_ms_max"] <= cpu_ms)
