"""Common code of the learners' benches: rows of the result, and programs of the build."""
import json
import os
import subprocess
import sys
import time

SOURCE = os.environ.get("GPUMUX_SOURCE", ".")
TOOLS = os.path.join(os.environ.get("GPUMUX_BUILD", "build/release"), "bench", "learn")


def row(what, bar, measured, met, **raw):
    """Prints one row; met is None for a figure without a bar."""
    verdict = "-" if met is None else "pass" if met else "MISSED"
    print(json.dumps({"what": what, "bar": bar, "measured": measured, "verdict": verdict,
                      "raw": raw}), flush=True)


def tool(name, *args, given=""):
    """Returns the output of a program of bench/learn."""
    done = subprocess.run([os.path.join(TOOLS, name), *map(str, args)], input=given,
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{name} failed: {done.stderr}")
    return done.stdout


def values(line):
    """Parses "a=1 b=2" into {"a": 1.0, "b": 2.0}."""
    return {key: float(value) for key, value in (part.split("=") for part in line.split())}


def least_ms(times, call):
    """Returns the call's result, and the least CPU time of several calls, as others may use the
    core."""
    least = None
    for _ in range(times):
        begin = time.process_time()
        answer = call()
        spent = (time.process_time() - begin) * 1e3
        least = spent if least is None else min(least, spent)
    return answer, least
