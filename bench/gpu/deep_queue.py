"""PyTorch with a queue of 20 ms kernels as deep as the driver allows.

--light: short kernels with pauses, and no queue.
--exit-after S: exits after S seconds and leaves its queue as it is.
"""

import argparse
import sys
import time

import torch


def cycles_of(ms):
    """Returns the clock cycles of the device that take this time."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(1000)
    start.record()
    torch.cuda._sleep(10_000_000)
    end.record()
    end.synchronize()
    return int(10_000_000 * ms / start.elapsed_time(end))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--exit-after", type=float)
    options = parser.parse_args()
    data = torch.ones(1 << 20, device="cuda")
    cycles = cycles_of(1 if options.light else 20)
    started = time.monotonic()
    print("ready", flush=True)
    while True:
        torch.cuda._sleep(cycles)
        data.add_(1)
        if options.light:
            if torch.isnan(data.sum()).item():  # waits, and detects damage to its memory
                sys.exit(1)
            time.sleep(0.02)
        if options.exit_after and time.monotonic() - started > options.exit_after:
            print("exits", flush=True)
            sys.exit(0)


if __name__ == "__main__":
    main()
