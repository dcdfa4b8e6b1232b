"""A training task that makes as many steps as it is told to, and says how long they took.

Reads `steps N` lines from standard input; answers each with one JSON object. `pairs N` asks for N pairs of steps with
quick launches and without them. One step more comes before them and does not
count: with it the device comes from another process's work to this one's. `--fake` needs no PyTorch.
"""

import argparse
import contextlib
import ctypes
import gc
import json
import os
import random
import sys
import time


def make_decode(batch):
    """One token of a decoder, launched kernel by kernel."""
    import torch

    from models import example

    torch.manual_seed(1)
    net, token = example("decoder", batch, "cuda")
    net.eval()

    @torch.inference_mode()
    def step():
        token.copy_(net(token))

    return step, torch.cuda.synchronize


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
    """The thread that calls, PyTorch's others and gpumux's have a core each, the same in every process."""
    for thread in map(int, os.listdir("/proc/self/task")):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/comm") as name:
            role = 0 if thread == os.getpid() else 2 if name.read().startswith("gpumux") else 1
            os.sched_setaffinity(thread, {cores[role]})


def ticks():
    """Launches, the shim's own ticks for them, of quick launches and of others; and the time, in ticks and in seconds. None: the
    shim does not measure itself."""
    library = ctypes.CDLL(None)
    with contextlib.suppress(AttributeError, ValueError):
        library.gpumux_ticks_now.restype = ctypes.c_uint64
        quick, other, quick_ticks, other_ticks = (ctypes.c_uint64 * 4).in_dll(library, "gpumux_ticks")
        return {"quick": quick, "other": other, "quick_ticks": quick_ticks, "other_ticks": other_ticks,
                "now_ticks": library.gpumux_ticks_now(), "now_s": time.monotonic()}
    return None


def make_pairs(step, synchronize, count):
    """Times of single steps with quick launches and without them, in ms, of a shim that can do both
    (libgpumux-cuda-switch.so). The two of a pair follow each other, in any order."""
    library = ctypes.CDLL(None)
    library.gpumux_quick_paid.restype = ctypes.c_uint64
    taken, paid = {1: [], 0: []}, {1: 0, 0: 0}
    for _ in range(count):
        for is_quick in random.sample([1, 0], 2):
            library.gpumux_quick_choose(is_quick)
            start = time.perf_counter()
            step()
            synchronize()
            taken[is_quick].append((time.perf_counter() - start) * 1000)
            paid[is_quick] += library.gpumux_quick_paid() != 0
    return {"quick_ms": taken[1], "slow_ms": taken[0], "quick_paid": paid[1], "slow_paid": paid[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--cores", help="three, comma-separated: of the thread that calls, of others, of gpumux's")
    parser.add_argument("--fake", action="store_true")
    options = parser.parse_args()
    if options.fake:
        step, synchronize = lambda: time.sleep(0.001), lambda: None
    elif options.model == "decoder":
        step, synchronize = make_decode(options.batch)
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
        what, steps = line.split()
        steps = int(steps)
        step()
        synchronize()
        if what == "pairs":
            print(json.dumps(make_pairs(step, synchronize, steps)), flush=True)
            continue
        start, host = time.perf_counter(), time.process_time()
        for _ in range(steps):
            step()
        synchronize()
        print(json.dumps({"steps": steps, "ms": (time.perf_counter() - start) * 1000 / steps,
                          "host_ms": (time.process_time() - host) * 1000 / steps, "ticks": ticks()}), flush=True)


if __name__ == "__main__":
    main()
