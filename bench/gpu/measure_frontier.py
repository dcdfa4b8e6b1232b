"""measure_frontier.py --name NAME VARIABLE=VALUE...: frontier.sh with these variables, and its
bars.

The median counts for points that frontier.sh measured several times.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import lab

# p99 / alone and the task's remaining speed, of every mode measured in this setting before.
MODES = {"time slices": (4.5, 0.80), "HAMi-core, 50 %": (4.3, 0.76), "HAMi-core, 25 %": (4.3, 0.49),
         "XSched, 16": (2.2, 0.78), "XSched, 4": (1.6, 0.68), "MPS": (5.8, 0.95),
         "MPS, 80 %": (2.5, 0.83), "MPS, 50 %": (1.6, 0.72), "MPS, 25 %": (1.4, 0.41),
         "MPS, 10 %": (1.2, 0.18),
         "MPS, priority": (2.6, 0.94), "MPS, priority and 50 %": (1.4, 0.70)}
# Variables of frontier.sh:
FROM_CALLER = ("WINDOWS", "ROUNDS", "EXTRA", "SETTLE_S", "ALONE_S", "LINGER", "GATE", "SHARE")
BARS_MPS = ((1.25, 0.80), (1.15, 0.70))
AIM = (1.10, 0.85)
BARS_TURNS = ((1.6, 0.75),)


def summarize(lines):
    """Returns (name, p99 / alone, kept) of every point with the task; alone is a median as well."""
    alone = [p["service"]["p99_ms"] for p in lines if "service" in p and "task_kept" not in p]
    beside = {}
    for p in lines:
        if "service" in p and "task_kept" in p:
            beside.setdefault(p["point"], []).append((p["service"]["p99_ms"], p["task_kept"]))
    if not alone:
        return None, []
    base = lab.median(alone)
    return base, [(name, lab.median([v[0] for v in values]) / base,
                   lab.median([v[1] for v in values]), len(values))
                  for name, values in beside.items()]


def best_of(points, ratio, kept):
    """Describes the point closest to the targets."""
    name, r, k, _ = min(points, key=lambda p: max(p[1] / ratio - 1, 0) + max(1 - p[2] / kept, 0))
    return f"{name}: p99 {r:.2f}x alone, task {k:.1%}"


def judge(part, lines, setting):
    is_mps, is_table = setting["mps"], setting["table"]
    base, points = summarize(lines)
    gated = [p for p in points if p[0] != "no gate, no window"]
    if not gated:
        return
    is_attempt = setting.get("attempt", False)
    where = "under MPS" if is_mps else "without MPS"
    for ratio, kept in BARS_MPS if is_mps else BARS_TURNS:
        held = any(r <= ratio and k >= kept for _, r, k, _ in gated)
        part.bar(f"frontier {where}: one point with p99 <= {ratio}x alone and the task "
                 f">= {kept:.0%}", "one point", best_of(gated, ratio, kept),
                 None if is_attempt else held, alone_p99_ms=base)
    if is_mps:
        held = any(r <= AIM[0] and k >= AIM[1] for _, r, k, _ in gated)
        part.bar(f"frontier {where}: aim of {AIM[0]}x at {AIM[1]:.0%}", "an aim",
                 best_of(gated, *AIM), True if held else None)
    if is_mps and is_table:
        worse = [f"{name} than {mode}" for name, r, k, _ in gated
                 for mode, (mr, mk) in MODES.items() if mr <= r and mk >= k]
        part.bar(f"frontier {where}: every point better than all modes measured before",
                 "no mode is as good in both",
                 "so" if not worse else "not " + "; not ".join(worse), not worse)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--table", action="store_true",
                        help="the setting in which the other modes were measured")
    parser.add_argument("--attempt", action="store_true",
                        help="another way to the same bars, which it does not decide")
    parser.add_argument("variables", nargs="*")
    options = parser.parse_args()
    variables = dict(word.split("=", 1) for word in options.variables)
    part = lab.Part(options.name,
                    "a service beside a training task: " + " ".join(options.variables))
    part.content["frontier"] = {"mps": variables.get("MPS", "1") != "0", "table": options.table,
                                "attempt": options.attempt}
    given = [f"{name}='{os.environ[name]}'" for name in FROM_CALLER
             if name in os.environ and name not in variables]
    part.content["command"] = " ".join([*given, part.content["command"]])
    out = lab.WORK / "frontier"
    out.mkdir()
    script = os.environ.get("FRONTIER", str(lab.TREE / "bench/gpu/frontier.sh"))
    child = lab.start(["bash", script], stdin=subprocess.DEVNULL,
                      env=lab.plain_environment(SHIM=lab.SHIM, OUT=str(out), PYTHON=sys.executable,
                                                BUDGET_S=str(int(lab.left_s() - 25)), **variables))
    seen = []
    while True:
        is_over = child.poll() is not None
        lines = [json.loads(line) for file in sorted(out.glob("*.jsonl"))
                 for line in file.read_text().splitlines() if line.strip().endswith("}")]
        for line in lines[len(seen):]:
            part.point(**line)
        if len(lines) > len(seen):
            seen = lines
            judge(part, lines, part.content["frontier"])
        if is_over:
            break
        if lab.left_s() < 15:
            lab.say("the time is over")
            break
        time.sleep(0.5)
    lab.end(child, 15)
    if child.returncode != 0:
        part.content["failure"] = f"frontier.sh ended with {child.returncode}"
    status = part.end()
    return status or int(child.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
