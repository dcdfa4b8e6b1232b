"""What the benches of the learners share: rows of the result, and programs of the build."""
import json
import os
import subprocess
import sys
import time

SOURCE = os.environ.get("GPUMUX_SOURCE", ".")
TOOLS = os.path.join(os.environ.get("GPUMUX_BUILD", "build/release"), "bench", "learn")


def row(what, bar, measured, met, **raw):
    """Prints one row; met is None for a figure that has no bar."""
    verdict = "-" if met is None else "pass" if met else "MISSED"
    print(json.dumps({"what": what, "bar": bar, "measured": measured, "verdict": verdict, "raw": raw}), flush=True)


def tool(name, *args, given=""):
    """The output of a program of bench/learn."""
    done = subprocess.run([os.path.join(TOOLS, name), *map(str, args)], input=given, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{name} failed: {done.stderr}")
    return done.stdout


def values(line):
    """{"a": 1.0, "b": 2.0} from "a=1 b=2"."""
    return {key: float(value) for key, value in (part.split("=") for part in line.split())}


def least_ms(times, call):
    """What the call returns, and the least CPU time of so many: all here run on one core, which others may share."""
    least = None
    for _ in range(times):
        begin = time.process_time()
        answer = call()
        spent = (time.process_time() - begin) * 1e3
        least = spent if least is None else min(least, spent)
    return answer, least
