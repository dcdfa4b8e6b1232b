"""A training task that runs a requested number of steps and reports their time.

Reads `steps N` lines from standard input and answers each with one JSON object. An uncounted step
precedes them, in which the device changes from another process's work to this one's. `--fake` needs
no PyTorch.
"""

import argparse
import contextlib
import ctypes
import gc
import json
import os
import sys
import time


def make_step(model, batch):
    import torch
    from torch import nn

    from models import example

    torch.manual_seed(1)
    net, data = example(model, batch, "cuda")
    labels = torch.randint(0, 1000, (batch,), device="cuda")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of(net(data), labels)
        loss.backward()
        optimizer.step()

    return step, torch.cuda.synchronize


def pin(cores):
    """Gives the launching thread, PyTorch's others and gpumux's one core each, the same
    everywhere."""
    for thread in map(int, os.listdir("/proc/self/task")):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/comm") as name:
            role = 0 if thread == os.getpid() else 2 if name.read().startswith("gpumux") else 1
            os.sched_setaffinity(thread, {cores[role]})


def ticks():
    """Returns the number of launches, the shim's own ticks for them, and the time in ticks and in
    seconds; None without a shim that measures itself."""
    library = ctypes.CDLL(None)
    with contextlib.suppress(AttributeError, ValueError):
        library.gpumux_ticks_now.restype = ctypes.c_uint64
        launches, spent = (ctypes.c_uint64 * 2).in_dll(library, "gpumux_ticks")
        return {"launches": launches, "ticks": spent,
                "now_ticks": library.gpumux_ticks_now(), "now_s": time.monotonic()}
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument(
        "--cores", help="three, comma-separated: of the launching thread, of others, of gpumux's")
    parser.add_argument("--fake", action="store_true")
    options = parser.parse_args()
    if options.fake:
        step, synchronize = lambda: time.sleep(0.001), lambda: None
    else:
        step, synchronize = make_step(options.model, options.batch)
    for _ in range(12):
        step()
    synchronize()
    gc.collect()
    gc.disable()
    print("ready", flush=True)
    for line in sys.stdin:
        if options.cores:
            pin([int(core) for core in options.cores.split(",")])
        steps = int(line.split()[1])
        step()
        synchronize()
        start, host = time.perf_counter(), time.process_time()
        for _ in range(steps):
            step()
        synchronize()
        print(json.dumps({"steps": steps, "ms": (time.perf_counter() - start) * 1000 / steps,
                          "host_ms": (time.process_time() - host) * 1000 / steps,
                          "ticks": ticks()}), flush=True)


if __name__ == "__main__":
    main()
