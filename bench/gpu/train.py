"""A training task of the benchmarks: eager PyTorch on the default stream.

Prints one line for each window of --window seconds: `t START END samples/s N`, on CLOCK_MONOTONIC,
so that a reader can select the time in which another program ran. While the file --pause exists,
the task pauses after the present window and prints `paused` once.
"""

import argparse
import os
import sys
import time

import torch
from torch import nn

from models import example

BATCHES = {"resnet50": 128, "bert": 32, "lstm": 64}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--window", type=float, default=1)
    parser.add_argument("--pause", default="")
    options = parser.parse_args()

    torch.backends.cudnn.benchmark = True
    batch = options.batch or BATCHES[options.model]
    net, data = example(options.model, batch, "cuda")
    labels = torch.randint(0, 1000, (batch,), device="cuda")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of(net(data), labels)
        loss.backward()
        optimizer.step()

    def rest():
        if options.pause and os.path.exists(options.pause):
            print("paused", flush=True)
            while os.path.exists(options.pause):
                time.sleep(0.02)

    for _ in range(10):
        step()
    torch.cuda.synchronize()
    print("ready", file=sys.stderr, flush=True)
    end = time.monotonic() + options.seconds
    while True:
        rest()
        start, steps = time.monotonic(), 0
        if start >= end:
            break
        while time.monotonic() - start < options.window:
            for _ in range(4):
                step()
            steps += 4
            # Like a loop that logs its loss, so the host is never far ahead of the device.
            torch.cuda.current_stream().synchronize()
        spent = time.monotonic() - start
        print(f"t {start:.3f} {start + spent:.3f} samples/s {steps * batch / spent:.1f}",
              flush=True)


if __name__ == "__main__":
    main()
