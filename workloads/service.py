"""Common code of the services in this folder: a process that answers requests on command. Run by
itself, this program answers with kernels of gpumux-burn, without PyTorch.

Commands come on standard input, one a line; each is answered with one JSON object on standard
output. The first object, {"loaded": ...}, says that the program has started; it has not used
the device yet.

  load                                 makes the network and warms it up; so do the other commands
  capacity SECONDS                     requests per second, one after the other
  serve RATE REQUESTS SEED [MS ...]    answers Poisson arrivals; counts latencies above each MS
  quit

The latency of a request counts from the time at which it was due. The arrivals depend only on
RATE, REQUESTS and SEED. The requests of the first WARM_S seconds are answered but not measured.
A round ends after LATEST times its planned time; requests that have not been answered then get a
latency of GIVEN_UP_S or more.

A streaming service answers sessions of SESSION tokens, of which RATE / SESSION arrive per second
(RATE 0: the next session begins when one ends). Every token is a request that is due when the
token before has been answered; the time that a session waits for the one before does not count.
"""

import argparse
import ctypes
import json
import math
import os
import random
import sys
import time

WARM_S, LATEST, GIVEN_UP_S, SESSION = 0.5, 1.7, 10.0, 32
PLACES_PER_DOUBLING = 32


class Reports:
    """Reports requests to gpumux; does nothing outside of gpumux or with an older library."""

    def __init__(self, kind, path):
        self.handle, self.kind = None, kind
        if kind == "none":
            return
        try:
            self.library = ctypes.CDLL(path or "libgpumux.so.0")
        except OSError:
            self.kind = "none"
            return
        self.library.gpumux_open.restype = ctypes.c_void_p
        self.handle = ctypes.c_void_p(self.library.gpumux_open())
        if kind == "requests" and hasattr(self.library, "gpumux_request_begin"):
            self.open_one = self.library.gpumux_request_begin
            self.open_one.restype = ctypes.c_uint64
            self.open_one.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
            self.close_one = self.library.gpumux_request_end
            self.close_one.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        else:
            self.kind = "latency"
            self.latency = self.library.gpumux_report_latency
            self.latency.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        if not self.handle:
            self.kind = "none"

    def begin(self, due):
        if self.kind == "requests":
            return self.open_one(self.handle, max(0, int((time.monotonic() - due) * 1e6)))
        return 0

    def end(self, token, latency_s):
        if self.kind == "requests":
            self.close_one(self.handle, token)
        elif self.kind == "latency":
            self.latency(self.handle, int(latency_s * 1e6))


# ---- workers: each answers a request ----

class Network:
    """A network in PyTorch, eager or as one CUDA graph a request."""

    def __init__(self, make, options):
        self.make, self.options, self.is_on_gpu = make, options, options.device == "cuda"
        global torch
        import torch
        torch.set_grad_enabled(False)

    def load(self):
        kind = torch.float16 if self.is_on_gpu else torch.float32
        with torch.device(self.options.device):
            net, self.data = self.make(self.options.tiny)
        self.net = net.eval().to(kind)
        if self.data.is_floating_point():
            self.data = self.data.to(kind)
        self.warm()
        if self.is_on_gpu:
            torch.cuda.empty_cache()
        if self.is_on_gpu and self.options.graph:
            self.capture()

    def warm(self):
        for _ in range(20):
            self.answer()

    def memory_mib(self):
        return torch.cuda.memory_reserved() >> 20 if self.is_on_gpu else 0

    def capture(self):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(5):
                self.net(self.data)
            stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                self.net(self.data)

        def answer():
            with torch.cuda.stream(stream):
                graph.replay()
            stream.synchronize()
        self.answer = answer
        self.warm()

    def answer(self):
        self.net(self.data)
        if self.is_on_gpu:
            torch.cuda.current_stream().synchronize()


class Stream(Network):
    """A decoder, whose requests are tokens."""

    def load(self):
        super().load()
        self.start()

    def start(self):
        """Begins a session."""
        self.token, self.at = self.data, 0

    def answer(self):
        if not hasattr(self, "at") or self.at == SESSION:
            self.start()
        self.token = self.net(self.token, self.at)
        self.at += 1
        self.token.cpu()  # a server passes the token on


class StandIn:
    """Kernels of gpumux-burn through the driver alone, for machines without PyTorch or a GPU."""

    KERNELS, KERNEL_US = 4, 300

    def __init__(self, make, options):
        pass

    def load(self):
        from standin import Kernels
        self.kernels = Kernels()

    def memory_mib(self):
        return 0

    def answer(self):
        for _ in range(self.KERNELS):
            self.kernels.launch(self.KERNEL_US)
        self.kernels.wait()


# ---- rounds ----

def wait_until(due):
    while (left := due - time.monotonic()) > 0:
        if left > 0.0005:
            time.sleep(0.0002)


def percentile(ordered, part):
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def histogram(latencies_ms):
    """Returns [[upper bound in ms, count] ...], a few per doubling."""
    places = {}
    for latency in latencies_ms:
        place = math.ceil(PLACES_PER_DOUBLING * math.log2(max(latency, 1e-3)))
        places[place] = places.get(place, 0) + 1
    return [[round(2 ** (place / PLACES_PER_DOUBLING), 4), count]
            for place, count in sorted(places.items())]


def arrivals(rate, requests, seed, is_stream):
    """Returns the times at which requests (of a stream: sessions) are due, from 0, and the time
    from which they are measured."""
    draw = random.Random(seed)
    each = SESSION if is_stream else 1
    wanted, due, now = requests + rate * WARM_S, [], 0.0
    while len(due) * each < wanted:
        now += draw.expovariate(rate / each) if rate else 0
        due.append(now)
    return due, WARM_S


def answer_one(worker, reports, due):
    token = reports.begin(due)
    worker.answer()
    latency = time.monotonic() - due
    reports.end(token, latency)
    return latency * 1000


def serve_requests(worker, reports, due, measured_from, end):
    """Returns latencies in ms, and the number of requests that were given up."""
    latencies, given_up = [], 0
    for moment in due:
        wait_until(moment)
        if time.monotonic() > end:
            given_up += 1
            latency = max(end - moment, GIVEN_UP_S) * 1000
        else:
            latency = answer_one(worker, reports, moment)
        if moment >= measured_from:
            latencies.append(latency)
    return latencies, given_up


def serve_sessions(worker, reports, due, measured_from, end):
    """The same for streams."""
    latencies, given_up = [], 0
    for moment in due:
        wait_until(moment)
        if hasattr(worker, "start"):
            worker.start()
        for _ in range(SESSION):
            now = time.monotonic()
            if now > end:
                given_up += 1
                latency = GIVEN_UP_S * 1000
            else:
                latency = answer_one(worker, reports, now)
            if now >= measured_from:
                latencies.append(latency)
    return latencies, given_up


def serve(worker, reports, options, is_stream, rate, requests, seed, *targets):
    rate, requests = float(rate), int(requests)
    due, warm_s = arrivals(rate, requests, int(seed), is_stream)
    start = time.monotonic() + 0.05
    due = [start + moment for moment in due]
    planned = (due[-1] - start) if rate else 10.0
    answer = serve_sessions if is_stream else serve_requests
    latencies, given_up = answer(worker, reports, due, start + warm_s,
                                 start + LATEST * planned + 0.2)
    end = time.monotonic()
    ordered = sorted(latencies) or [0.0]
    raw = {"latencies_ms": [round(latency, 4) for latency in latencies]} if options.raw else {}
    return {"requests": len(latencies), "given_up": given_up, "rate": rate, "seed": int(seed),
            "start": start + warm_s, "end": max(end, start + warm_s),
            "p50_ms": round(percentile(ordered, 0.50), 4),
            "p95_ms": round(percentile(ordered, 0.95), 4),
            "p99_ms": round(percentile(ordered, 0.99), 4),
            "mean_ms": round(sum(ordered) / len(ordered), 4), "max_ms": round(ordered[-1], 3),
            "late": {target: sum(latency > float(target) for latency in latencies)
                     for target in targets},
            "histogram": histogram(latencies), "reports": reports.kind, **raw}


def capacity(worker, reports, seconds):
    """Requests one after the other, as fast as they are answered."""
    start, count, times = time.monotonic(), 0, []
    while (before := time.monotonic()) - start < float(seconds):
        answer_one(worker, reports, before)
        times.append(time.monotonic() - before)
        count += 1
    return {"per_s": round(count / (time.monotonic() - start), 3),
            "median_ms": round(1000 * percentile(sorted(times), 0.5), 4)}


def options_of(what):
    parser = argparse.ArgumentParser(description=what + __doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", action="store_true", help="one CUDA graph a request, not eager")
    parser.add_argument("--report", choices=("requests", "latency", "none"), default="requests",
                        help="what gpumux is told, if it started the program")
    parser.add_argument("--library", help="path of libgpumux.so.0")
    parser.add_argument("--raw", action="store_true", help="print every latency, too")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a small network, for tests")
    return parser.parse_args()


def main(what, make, kind=Network, is_stream=False):
    """Runs the service whose network make(tiny) returns, with a batch of input."""
    options = options_of(what)
    worker = kind(make, options)
    reports = Reports(options.report, options.library)

    def say(answer):
        print(json.dumps(answer), flush=True)

    say({"loaded": what.split(":")[0], "pid": os.getpid()})
    is_loaded = False
    for line in sys.stdin:
        words = line.split()
        if not words:
            continue
        if words[0] == "quit":
            break
        if not is_loaded:
            worker.load()
            is_loaded = True
        if words[0] == "load":
            say({"ready": True, "memory_mib": worker.memory_mib()})
        elif words[0] == "capacity":
            say(capacity(worker, reports, words[1]))
        elif words[0] == "serve":
            say(serve(worker, reports, options, is_stream, *words[1:]))
        else:
            say({"error": f"no command is called {words[0]}"})


if __name__ == "__main__":
    main("A stand-in: kernels of gpumux-burn.\n\n", None, StandIn)
