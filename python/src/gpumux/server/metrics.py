"""Counters and histograms in the text format of Prometheus."""

import threading
from bisect import bisect_left
from collections import Counter
from typing import Dict, List, Optional, Sequence, Tuple

CONTENT_TYPE = "text/plain; version=0.0.4"
_STEPS = (1, 1.5, 2, 3, 4, 5, 7)
_BATCHES = [2**i for i in range(13)]


def latency_bounds(target: Optional[float]) -> List[float]:
    """Return the bounds of latencies, from 0.5 ms to 100 s. The target is one of the bounds: the
    histogram then says exactly how many requests met the target."""
    bounds = {float(f"{step}e{power}") for power in range(-3, 2) for step in _STEPS}
    bounds |= {0.0005, 0.0007, 100.0}
    if target is not None:
        bounds.add(target)
    return sorted(bounds)


class Histogram:
    """Counts of values up to each bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = list(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, label: str) -> List[str]:
        total = 0
        lines = []
        for bound, count in zip([*map(str, self._bounds), "+Inf"], self._counts):
            total += count
            lines.append(f'{name}_bucket{{{label},le="{bound}"}} {total}')
        return [*lines, f"{name}_sum{{{label}}} {self._sum}", f"{name}_count{{{label}}} {total}"]


class Metrics:
    """The counts of one model. Any thread may call any method."""

    def __init__(self, model: str, target: Optional[float]) -> None:
        self._label = f'model="{model}"'
        self._lock = threading.Lock()
        self._requests = 0
        self._failures: Counter[str] = Counter()
        self._latency = Histogram(latency_bounds(target))
        self._batch = Histogram(_BATCHES)

    def request(self) -> None:
        """Count a request to the model."""
        with self._lock:
            self._requests += 1

    def failure(self, status: int) -> None:
        """Count a request that got an error, by the status of its answer."""
        with self._lock:
            self._failures[str(status)] += 1

    def answered(self, seconds: float) -> None:
        """Add the latency of a request that was answered."""
        with self._lock:
            self._latency.add(seconds)

    def batch(self, rows: int) -> None:
        """Add a batch."""
        with self._lock:
            self._batch.add(rows)

    def text(self, gauges: Dict[str, Tuple[str, int]]) -> str:
        """Return the page, with gauges of the caller: name, help and value."""
        label = self._label
        with self._lock:
            page = _family("requests_total", "counter", "Requests to the model.",
                           [f"gpumux_serve_requests_total{{{label}}} {self._requests}"])
            page += _family("failures_total", "counter", "Requests with an error, by HTTP status.",
                            [f'gpumux_serve_failures_total{{{label},status="{s}"}} {n}'
                             for s, n in sorted(self._failures.items())])
            page += _family("request_latency_seconds", "histogram", "Latency of answered requests.",
                            self._latency.lines("gpumux_serve_request_latency_seconds", label))
            page += _family("batch_rows", "histogram", "Rows of each batch.",
                            self._batch.lines("gpumux_serve_batch_rows", label))
        for name, (help_text, value) in gauges.items():
            page += _family(name, "gauge", help_text, [f"gpumux_serve_{name}{{{label}}} {value}"])
        return "\n".join(page) + "\n"


def _family(name: str, kind: str, help_text: str, lines: List[str]) -> List[str]:
    return [f"# HELP gpumux_serve_{name} {help_text}", f"# TYPE gpumux_serve_{name} {kind}", *lines]
