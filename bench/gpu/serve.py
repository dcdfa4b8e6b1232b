"""An inference service of the benchmarks: ResNet-50, fp16, batch 8, one CUDA graph a request.

Requests are due at the times of a Poisson process; latency counts from the due time, so it includes
a late start. The first --warm requests of a round are not measured. Prints one JSON object a round:
requests, percentiles in milliseconds, and the worst requests with their due times in seconds, which
distinguish one long stall from many slow requests.

With --rounds, reads lines `REQUESTS RATE` from standard input, one for each round.
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


def serve(graph, stream, requests, rate, warm, seed):
    draw = random.Random(seed)
    latencies, due = [], time.monotonic() + 0.1
    started = due
    for number in range(warm + requests):
        due += draw.expovariate(rate)
        while time.monotonic() < due:
            if due - time.monotonic() > 0.0005:
                time.sleep(0.0002)
        if number == warm:
            started = due
        graph.replay()
        stream.synchronize()
        if number >= warm:
            latencies.append(((time.monotonic() - due) * 1000, round(due - started, 3)))
    ended = time.monotonic()
    latencies.sort()
    values = [latency for latency, _ in latencies]
    print(json.dumps({
        "requests": len(values), "rate": rate, "start": started, "end": ended,
        "p50_ms": round(percentile(values, 0.50), 3),
        "p95_ms": round(percentile(values, 0.95), 3),
        "p99_ms": round(percentile(values, 0.99), 3),
        "mean_ms": round(sum(values) / len(values), 3),
        "over_10ms": sum(value > 10 for value in values),
        "worst_ms_at_s": [[round(ms, 2), at] for ms, at in latencies[-5:]]}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rate", type=float, default=150)
    parser.add_argument("--requests", type=int, default=6000)
    parser.add_argument("--warm", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", action="store_true")
    parser.add_argument("--same-kernels", action="store_true",
                        help="choose the same kernels in every process, for comparisons")
    options = parser.parse_args()

    torch.backends.cudnn.benchmark = not options.same_kernels
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

    with torch.no_grad(), torch.cuda.stream(stream):
        if not options.rounds:
            serve(graph, stream, options.requests, options.rate, options.warm, options.seed)
        for line in sys.stdin if options.rounds else ():
            requests, rate = line.split()
            serve(graph, stream, int(requests), float(rate), options.warm, options.seed)


if __name__ == "__main__":
    main()
