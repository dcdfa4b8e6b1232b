"""merge.py FILE JSON...: merges the results of parts into one file, and prints the bars.

A part with a "superseded" entry, which is added by hand, keeps its bars to itself.
"""

import json
import subprocess
import sys
from pathlib import Path

import measure_frontier


def commit_of(tree):
    try:
        done = subprocess.run(["git", "-C", str(tree), "rev-parse", "--short", "HEAD"],
                              capture_output=True, text=True, timeout=10, check=False)
        return done.stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def read(path):
    return json.loads(Path(path).read_text())


class Bars:
    """Collects the bars of several runs of a part."""

    def __init__(self):
        self.found = []

    def bar(self, what, limit, measured, held, **more):
        self.found.append({"bar": what, "limit": limit, "measured": measured, "held": held, **more})


def bars_of(parts):
    """Judges the runs of a frontier together, because their medians count, and other runs one by
    one."""
    runs = {}
    for part in parts:
        if "superseded" in part:
            continue
        runs.setdefault(part["part"], []).append(part)
    found = []
    for name, group in runs.items():
        if len(group) > 1 and "frontier" in group[0]:
            together = Bars()
            measure_frontier.judge(together, [p for part in group for p in part["points"]],
                                   group[0]["frontier"])
            found += [{"part": name, "runs": len(group), **bar} for bar in together.found]
        else:
            found += [{"part": name, **bar} for part in group for bar in part.get("bars", [])]
    return found


def main():
    target, *paths = sys.argv[1:]
    parts = [read(path) for path in paths]
    first = parts[0]
    bars = bars_of(parts)
    merged = {
        "what": "the bars of protection on a real GPU",
        "date": max(p.get("date", "") for p in parts)[:10],
        "commit": commit_of(Path(__file__).parent),
        "gpu": first.get("gpu", ""), "machine": first.get("machine", ""),
        "held": sum(bar["held"] is True for bar in bars),
        "missed": sum(bar["held"] is False for bar in bars),
        "undecided": sum(bar["held"] is None for bar in bars), "bars": bars,
        "incomplete": [p["part"] for p in parts if not p.get("complete", True)],
        "untested": [{"part": p["part"], **item} for p in parts for item in p.get("untested", [])],
        "parts": [{k: v for k, v in p.items() if k not in ("untested", "gpu", "machine") and
                   (k != "bars" or "superseded" in p)} for p in parts]}
    Path(target).write_text(json.dumps(merged, indent=1) + "\n")
    for bar in bars:
        held = {True: "yes", False: "NO", None: "?"}[bar["held"]]
        print(f"{bar['part']}: {bar['bar']}: {bar['limit']}; measured {bar['measured']}; "
              f"held {held}")
    print(f"{merged['held']} bars held, {merged['missed']} missed, "
          f"{merged['undecided']} undecided; {Path(target).name}")


if __name__ == "__main__":
    main()
