"""measure_faults.py fault: an illegal address in one task, and the time until the others run again.

measure_faults.py monitor: memory in use crosses a device's hard limit, and the time until the task
has stopped.
"""

import contextlib
import ctypes
import os
import sys
import time

import lab

SERVICE_S_MAX, STOPPED_MS_MAX, ROUNDS, CROSSINGS = 10, 500, 3, 10


# ---- an illegal address ----

def guilty_command():
    if lab.EMULATED:  # nothing faults by itself: see provoke()
        return [lab.BURN, "--step-ms", "5", "--sm", "20"]
    return [lab.build_cuda("bench/gpu/illegal.cu"), "1500"]


def provoke(node, guilty, seconds=60):
    """Waits for the fault. Returns its time."""
    if not lab.EMULATED:
        def said():
            lines = [line for line in node.logs(guilty.id).splitlines()
                     if line.startswith("faulting at ")]
            return float(lines[-1].split()[2]) if lines else None
        return lab.wait_until("the task faults", said, seconds)
    tool = str(lab.EMULATION / "bin/gpumux-emu-fault")
    environment = dict(node.environment, GPUMUX_EMU=str(node.state / "emu/devices"),
                       CUDA_MPS_PIPE_DIRECTORY=str(next((node.state / "node/mps").iterdir())))

    def hit():
        at = time.monotonic()
        done = lab.subprocess.run([tool, "0", "illegal-address", str(guilty.pid())],
                                  env=environment, capture_output=True, timeout=10, check=False)
        return at if done.returncode == 0 else None
    return lab.wait_until("the task faults", hit, seconds)


def keep_faulting(node, guilty, at_attempt):
    """Makes each attempt fault on an emulated device; on a real one the program does."""
    if lab.EMULATED:
        with contextlib.suppress(TimeoutError, OSError):
            node.wait_state(guilty.id, "running", seconds=5)
            if node.show(guilty.id)["attempt"] != at_attempt:
                provoke(node, guilty, 1)


def measure_fault(part, number):
    """Measures one node with a service, an innocent task and a guilty one, from fault to
    recovery."""
    node = lab.Node("fault_probation=4s")
    service = lab.Workload(node, ["--kind", "service", "--quota", "4g", "--ready", "client"],
                           [lab.BURN, "--service", "--rate", "100", "--kernel-ms", "1",
                            "--sm", "20"])
    innocent = lab.Workload(node, ["--quota", "4g"], [lab.BURN, "--step-ms", "5", "--sm", "20"])
    for one in (service, innocent):
        node.wait_state(one.id, "running")
        lab.wait_until("it works", lambda n=one.id: node.counters(n).get("launches_kernel", 0) > 3,
                       60)
    guilty = lab.Workload(node, ["--quota", "4g"], guilty_command())
    node.wait_state(guilty.id, "running")
    at = provoke(node, guilty)

    def answers():
        now = node.show(service.id)
        counters = ((now["usage"] or {}).get("protection") or {}).get("counters") or {}
        launched = counters.get("launches_kernel", 0)
        return now["attempt"] >= 2 and now["state"] == "running" and launched >= 1
    lab.wait_until("the service answers again", answers, 60)
    service_s = time.monotonic() - at

    attempts, ended = 1, None
    end_s = time.monotonic() + 90
    while time.monotonic() < end_s:
        ended = node.show(guilty.id)
        if ended["state"] in ("failed", "cancelled", "succeeded"):
            break
        keep_faulting(node, guilty, attempts)
        attempts = ended["attempt"]
        time.sleep(0.02)
    found_s = time.monotonic() - at
    lab.wait_until("the innocent task runs", lambda: node.show(innocent.id)["state"] == "running",
                   60)
    again = lab.Workload(node, ["--quota", "4g"],
                         [lab.BURN, "--step-ms", "5", "--steps", "20", "--sm", "20"])
    new_state = node.wait_state(again.id, "succeeded", "failed", seconds=30)["state"]
    device_s = time.monotonic() - at
    blamed, spared = node.show(guilty.id), node.show(innocent.id)
    part.point(round=number, service_back_s=round(service_s, 3), guilty_state=blamed["state"],
               guilty_failure=blamed["failure"], guilty_faults=blamed["faults"],
               guilty_text=blamed["text"], guilty_found_s=round(found_s, 2),
               device_back_s=round(device_s, 2), new_task=new_state,
               innocent_failures=spared["failures"], innocent_faults=spared["faults"],
               service_failures=node.show(service.id)["failures"], device=node.device()["state"],
               events=[line for line in node.command("events").splitlines()
                       if " device_" in line or "fault" in line])
    node.close()
    is_found = blamed["state"] == "failed" and blamed["failure"] == "fault"
    is_just = spared["failures"] == 0 and spared["faults"] == 0
    return service_s, is_found and is_just, new_state == "succeeded"


def fault():
    part = lab.Part("fault", "an illegal address of one MPS client")
    results = []
    for number in range(ROUNDS):
        if number > 0 and lab.left_s() < 60:
            break
        try:
            results.append(measure_fault(part, number))
        except TimeoutError as problem:
            part.point(round=number, problem=str(problem))
            results.append((float("inf"), False, False))
        slowest = max(r[0] for r in results)
        part.bar("illegal address: the service answers again", f"<= {SERVICE_S_MAX} s",
                 f"{slowest:.2f} s, the slowest of {len(results)}", slowest <= SERVICE_S_MAX)
        part.bar("illegal address: the guilty task is found and quarantined, no other is blamed",
                 "always", f"{sum(r[1] for r in results)} of {len(results)}",
                 all(r[1] for r in results))
        part.bar("illegal address: the device is back in use", "always",
                 f"{sum(r[2] for r in results)} of {len(results)}", all(r[2] for r in results))
    return part.end()


# ---- the monitor ----

class Memory:
    """The memory of device 0 by NVML, independent of gpumux."""

    class Info(ctypes.Structure):
        _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                    ("used", ctypes.c_ulonglong)]

    def __init__(self, node):
        name = "libnvidia-ml.so.1"
        if lab.EMULATED:
            os.environ["GPUMUX_EMU"] = str(node.state / "emu/devices")
            name = str(lab.EMULATION / name)
        self.nvml = ctypes.CDLL(name)
        self.device = ctypes.c_void_p()
        handle = ctypes.byref(self.device)
        if (self.nvml.nvmlInit_v2() != 0
                or self.nvml.nvmlDeviceGetHandleByIndex_v2(0, handle) != 0):
            raise OSError("NVML does not answer")

    def read(self):
        info = Memory.Info()
        if self.nvml.nvmlDeviceGetMemoryInfo(self.device, ctypes.byref(info)) != 0:
            raise OSError("NVML does not answer")
        return info


def cross(part, node, memory, hard_bytes, number):
    """Evicts a task that exceeds the limit. Returns the ms from its allocation to its end."""
    victim = lab.Workload(node, ["--quota", "60g"],
                          [lab.BURN, "--step-ms", "5", "--sm", "20", "--memory", "30g"])
    end_s = time.monotonic() + 30
    while (used := memory.read().used) <= hard_bytes:
        if time.monotonic() > end_s:
            raise TimeoutError(f"the limit was not crossed: {used} of {hard_bytes} bytes")
        time.sleep(0.001)
    crossed = time.monotonic()
    watch = lab.Stopwatch(victim.pid())
    is_ended = watch.wait(10)
    spent_ms = (time.monotonic() - crossed) * 1000
    watch.close()

    def evicted():
        texts = [a["text"] for a in node.show(victim.id)["attempts"] if a["ended"]]
        return texts or None
    with contextlib.suppress(TimeoutError):
        lab.wait_until("its attempt has ended", evicted, 5)
    part.point(round=number, stopped_ms=round(spent_ms, 1), ended=is_ended, used=used,
               limit=hard_bytes, why=evicted())
    node.cancel(victim.id, grace="1s")
    node.wait_state(victim.id, "cancelled", "failed", "succeeded", seconds=15)
    return spent_ms if is_ended else float("inf")


def monitor():
    part = lab.Part("monitor", "memory in use crosses a device's hard limit")
    hard = 20
    node = lab.Node(f"monitor_memory_hard={hard}", f"monitor_memory_soft={hard}",
                    "monitor_hold_min=200ms", "monitor_hold_max=200ms")
    memory = Memory(node)
    # A service keeps the device and its MPS daemon in use, so that no start is measured.
    service = lab.Workload(node, ["--kind", "service", "--quota", "4g"],
                           [lab.BURN, "--service", "--rate", "50", "--kernel-ms", "1",
                            "--sm", "10"])
    node.wait_state(service.id, "running")
    times = []
    for number in range(CROSSINGS):
        lab.wait_until("the device is healthy", lambda: node.device()["state"] == "healthy", 30)
        try:
            times.append(cross(part, node, memory, memory.read().total * hard // 100, number))
        except TimeoutError as problem:
            part.point(round=number, problem=str(problem))
            times.append(float("inf"))
        part.bar("monitor: from a crossed hard limit to the task stopped",
                 f"<= {STOPPED_MS_MAX} ms", f"{max(times):.0f} ms, the slowest of {len(times)}",
                 max(times) <= STOPPED_MS_MAX, median_ms=lab.median(times))
    node.close()
    return part.end()


if __name__ == "__main__":
    sys.exit({"fault": fault, "monitor": monitor}[sys.argv[1]]())
