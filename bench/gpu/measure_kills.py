"""Effect of a killed client of MPS on its neighbours, by its outstanding work; no shim.

Victims keep a number of kernels outstanding and are killed one after the other, beside one process
with short kernels. "files held": this program also holds the open files of /dev/nvidia* of the
victim, and closes them 0.3 s after the kill, like gpumux's agent.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time

import lab

VICTIM = """
import sys
import torch
sys.path.insert(0, sys.argv[3])
from deep_queue import cycles_of
count, cycles, events = int(sys.argv[1]), cycles_of(float(sys.argv[2])), []
print("ready", flush=True)
while True:
    torch.cuda._sleep(cycles)
    events.append(torch.cuda.Event())
    events[-1].record()
    if len(events) >= count:
        events.pop(0).synchronize()
"""
VARIANTS = ((1, 20, False), (3, 20, False), (10, 2, False), (100, 0.2, False), (1, 2, False),
            (1, 20, True), (3, 20, True))
VICTIMS = 4
PIDFD_GETFD = 438  # x86-64 and all newer architectures
HELD_S = 0.3


def hold_files(pid):
    """Returns descriptors of this process for the device files that the other process has open."""
    libc = ctypes.CDLL(None, use_errno=True)
    pid_fd, held = os.pidfd_open(pid), []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("/dev/nvidia"):
                mine = libc.syscall(PIDFD_GETFD, pid_fd, int(fd), 0)
                if mine >= 0:
                    held.append(mine)
    os.close(pid_fd)
    return held


def start(command, variables):
    return lab.start(command, env=lab.plain_environment(**variables), stdout=subprocess.PIPE,
                     text=True, stderr=subprocess.DEVNULL)


def await_ready(child):
    while (line := child.stdout.readline()) and not line.startswith("ready"):
        pass
    if not line:
        raise OSError("a process does not start")


def measure(part, count, ms, is_held):
    here = str(lab.TREE / "bench/gpu")
    with lab.mps() as variables:
        light = start([sys.executable, f"{here}/deep_queue.py", "--light"], variables)
        victims = [start([sys.executable, "-c", VICTIM, str(count), str(ms), here], variables)
                   for _ in range(VICTIMS)]
        for child in (light, *victims):
            await_ready(child)
        time.sleep(1)
        kills, lost = 0, False
        for victim in victims:
            held = hold_files(victim.pid) if is_held else []
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            time.sleep(HELD_S)
            for fd in held:
                os.close(fd)
            time.sleep(0.5)
            kills += 1
            lost = light.poll() is not None
            if lost:
                break
        part.point(outstanding=f"{count} x {ms} ms", files="held" if is_held else "closed",
                   files_count=len(held), kills=kills,
                   neighbour="lost at the last of them" if lost else "lived")
        for child in (light, *victims):
            lab.end(child, 3)
    return lost


def main():
    part = lab.Part("kills", "what a killed client of MPS does to its neighbours, without a shim")
    for count, ms, is_held in VARIANTS:
        lost = measure(part, count, ms, is_held)
        if is_held:
            part.bar(f"killed with {count} x {ms} ms, files held: the neighbour lives", "always",
                     "lost" if lost else f"{VICTIMS} of {VICTIMS}", not lost)
    return part.end()


if __name__ == "__main__":
    sys.exit(main())
