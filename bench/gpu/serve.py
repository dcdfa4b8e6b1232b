"""An inference service of the benchmarks: ResNet-50, fp16, batch 8, one CUDA graph a request.

Requests are due at the times of a Poisson process; latency counts from the due time, so a late
start is not forgiven. Prints one JSON object: requests, p50, p95 and p99 in milliseconds.
"""

import argparse
import json
import random
import sys
import time

import torch

from models import example


def percentile(values, part):
    return values[min(len(values) - 1, int(part * len(values)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rate", type=float, default=150)
    parser.add_argument("--requests", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.backends.cudnn.benchmark = True
    net, data = example(options.model, options.batch, "cuda", torch.float16)
    net.eval()
    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(10):
            net(data)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            net(data)
        for _ in range(50):
            graph.replay()
        stream.synchronize()
    print("ready", file=sys.stderr, flush=True)

    draw = random.Random(options.seed)
    latencies, due = [], time.monotonic() + 0.1
    started = due
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(options.requests):
            due += draw.expovariate(options.rate)
            while time.monotonic() < due:
                if due - time.monotonic() > 0.0005:
                    time.sleep(0.0002)
            graph.replay()
            stream.synchronize()
            latencies.append((time.monotonic() - due) * 1000)
    ended = time.monotonic()
    latencies.sort()
    print(json.dumps({
        "requests": len(latencies), "rate": options.rate, "start": started, "end": ended,
        "p50_ms": round(percentile(latencies, 0.50), 3),
        "p95_ms": round(percentile(latencies, 0.95), 3),
        "p99_ms": round(percentile(latencies, 0.99), 3)}), flush=True)


if __name__ == "__main__":
    main()
