"""The rate loop without MPS: a task's own GPU time against its granted share.

Three measurements: the kernels of gpumux-burn, each of known length; the speed of a ResNet-50
training relative to its speed without a limit; and the GPU time by the shim's own account. The bar
applies to the first two.
"""

import contextlib
import datetime
import importlib.util
import re
import subprocess
import sys
import time

import lab

TARGETS = (20, 50, 80)
POINTS_MAX = 5


def account(node, number):
    """Returns the time, the GPU time by the shim's account, and all counters."""
    counters = node.counters(number)
    used_ns = counters.get("gpu_time_kernel_ns", 0) + counters.get("gpu_time_graph_ns", 0)
    return time.monotonic(), used_ns, counters


def measure_burn(part, node, target):
    """Runs kernels of 4 ms that fill the device; the number completed gives the GPU time."""
    listing = node.directory / "kernels.csv"
    listing.write_text("workload,duration_us,block_us,sm_permille,dram_permille\n" +
                       "rate,4000,0,1000,0\n" * 5)
    number = node.submit("--quota", "8g", "--share-max", str(target), "--", lab.BURN,
                         "--kernel-list", str(listing), "--model", "rate")
    node.wait_state(number, "running")
    time.sleep(3)
    first, begun = steps_of(node, number), account(node, number)
    time.sleep(7)
    last, ended = steps_of(node, number), account(node, number)
    node.cancel(number, grace="2s")
    node.wait_state(number, "cancelled", "failed", "succeeded")
    own = 100 * (last[1] - first[1]) * 20 / 1000 / max(0.001, last[0] - first[0])
    by_account = 100 * (ended[1] - begun[1]) / 1e9 / max(0.001, ended[0] - begun[0])
    part.point(program="gpumux-burn", target=target, own_percent=round(own, 2),
               account_percent=round(by_account, 2), counters=ended[2])
    return own


def steps_of(node, number):
    """Returns time and step count of the last line of progress, printed once a second."""
    lines = node.command("logs", "--stdout", "-t", str(number)).splitlines()
    for line in reversed(lines):
        found = re.match(r"(\S+) .*?step=(\d+) ", line)
        if found:
            at = datetime.datetime.fromisoformat(found[1][:26].rstrip("Z") + "+00:00")
            return at.timestamp(), int(found[2])
    raise OSError(f"workload {number} says nothing")


def measure_training(part, node, target, alone):
    command = [sys.executable, str(lab.TREE / "bench/gpu/train.py"), "--seconds", "14"]
    options = ["--share-max", str(target)] if target else []
    number = node.submit("--quota", "40g", *options, "--", *command)
    node.wait_state(number, "running")
    node.wait_state(number, "succeeded", "failed", seconds=90)
    speeds = [float(line.split()[4]) for line in node.logs(number).splitlines()
              if line.startswith("t ")]
    if len(speeds) < 8:
        raise OSError(f"the training was not measured: {node.logs(number)[-300:]}")
    speed = sum(speeds[4:]) / len(speeds[4:])
    part.point(program="ResNet-50 training", target=target or 100, samples_per_s=round(speed, 1),
               own_percent=round(100 * speed / alone, 2) if alone else None,
               counters=node.counters(number))
    return speed


def main():
    part = lab.Part("rate", "the rate loop without MPS: own GPU time against the granted share")
    node = lab.Node("mps=off")
    errors = {"gpumux-burn": [], "ResNet-50 training": []}

    def note(program, target, own):
        errors[program].append(abs(own - target))
        part.bar(f"rate loop without MPS, {program}, target {target} %",
                 f"within {POINTS_MAX} points", f"{own:.1f} %", abs(own - target) <= POINTS_MAX)

    for target in TARGETS:
        with contextlib.suppress(TimeoutError, subprocess.TimeoutExpired):
            note("gpumux-burn", target, measure_burn(part, node, target))
    if lab.EMULATED or not importlib.util.find_spec("torch"):
        part.untested("the rate of a ResNet-50 training", "PyTorch is not here")
    else:
        alone = measure_training(part, node, None, None)
        for target in TARGETS:
            if lab.left_s() < 45:
                part.untested(f"the rate of a ResNet-50 training at {target} %",
                              "the time was over")
                continue
            speed = measure_training(part, node, target, alone)
            note("ResNet-50 training", target, 100 * speed / alone)
    node.close()
    return part.end()


if __name__ == "__main__":
    sys.exit(main())
