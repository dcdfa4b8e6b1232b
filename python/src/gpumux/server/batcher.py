"""Joins requests into batches, and runs the model on one thread."""

import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Callable, Deque, Dict, List, Optional, Tuple

from . import speed as speeds
from .tensor import Tensor, TensorError, join

Tensors = Dict[str, Tensor]


class Full(Exception):
    """The queue has no room, or the batcher is closed."""

    def __init__(self, message: str, retry_s: int) -> None:
        super().__init__(message)
        self.retry_s = retry_s


@dataclass(frozen=True)
class _Job:
    inputs: Tensors
    rows: int
    key: Tuple[object, ...]
    arrival: float
    is_urgent: bool  # found the model idle
    result: "Future[Tensors]"


class Batcher:
    """A queue in front of a model.

    `run` takes and returns tensors, with `limit()` rows at most unless one request alone has more.
    A request that finds the model idle starts at once; others wait for company until half of the
    slack between `target` and the learned latency has passed since their arrival. `on_batch` is
    told the rows, the limit and the seconds of each batch. Any thread may call any method.
    """

    def __init__(self, run: Callable[[Tensors], Tensors], limit: Callable[[], int],
                 target: Optional[float] = None, rows_max: Optional[int] = None,
                 splits: bool = True,
                 on_batch: Callable[[int, int, float], None] = lambda *_: None) -> None:
        self._run = run
        self._limit = limit
        self._target = target
        self._rows_max = rows_max
        self._splits = splits
        self._on_batch = on_batch
        self._speed = speeds.Speed()
        self._changed = threading.Condition()
        self._queue: Deque[_Job] = deque()
        self._rows = 0
        self._running = False
        self._closed = False
        self._thread = threading.Thread(target=self._loop, name="gpumux-model", daemon=True)
        self._thread.start()

    def submit(self, inputs: Tensors, rows: int, arrival: float) -> "Future[Tensors]":
        """Queue a request of that many rows, which arrived at that time (time.monotonic()). Raises
        Full."""
        limit = self._limit()
        with self._changed:
            if self._closed:
                raise Full("the server is ending", 1)
            most = self._room(limit)
            if self._queue and self._rows + rows > most:
                raise Full(f"{self._rows} rows wait, of at most {most}",
                           speeds.retry_s(self._speed, limit, self._rows))
            key = tuple((name, t.datatype, t.shape[1:]) for name, t in sorted(inputs.items()))
            is_urgent = not self._running and not self._queue
            job = _Job(inputs, rows, key, arrival, is_urgent, Future())
            job.result.set_running_or_notify_cancel()  # a peer that has gone cancels nothing
            self._queue.append(job)
            self._rows += rows
            self._changed.notify_all()
            return job.result

    def waiting(self) -> Tuple[int, int]:
        """Return how many rows wait, and how many may wait."""
        limit = self._limit()
        with self._changed:
            return self._rows, self._room(limit)

    def wait_until_waiting(self, rows: int, timeout: Optional[float] = None) -> bool:
        """Wait until that many rows wait, and return whether they do."""
        with self._changed:
            return self._changed.wait_for(lambda: self._rows >= rows, timeout)

    def close(self) -> None:
        """Finish all queued requests, refuse new ones, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _room(self, limit: int) -> int:
        rows = speeds.queue_rows(self._speed, limit, self._target)
        return rows if self._rows_max is None else min(rows, self._rows_max)

    def _loop(self) -> None:
        while True:
            jobs, limit = self._take()
            if not jobs:
                return
            self._finish(jobs, limit)

    def _take(self) -> Tuple[List[_Job], int]:
        """Wait for the next batch and remove it from the queue. Empty: the batcher is closed."""
        with self._changed:
            self._running = False
            while True:
                if not self._queue:
                    if self._closed:
                        return [], 0
                    self._changed.wait()
                    continue
                limit = self._limit()
                jobs, is_full = self._joinable(limit)
                head = jobs[0]
                patience = (head.arrival + speeds.wait_s(self._speed, limit, self._target)
                            - time.monotonic())
                if is_full or head.is_urgent or self._closed or patience <= 0:
                    break
                self._changed.wait(patience)
            taken = set(map(id, jobs))
            self._queue = deque(job for job in self._queue if id(job) not in taken)
            self._rows -= sum(job.rows for job in jobs)
            self._running = True
            return jobs, limit

    def _joinable(self, limit: int) -> Tuple[List[_Job], bool]:
        """Return the oldest request with those that fit beside it, and whether no more would."""
        head = self._queue[0]
        jobs, rows = [head], head.rows
        for job in list(self._queue)[1:]:
            if rows >= limit or not self._splits:
                break
            if job.key != head.key:
                continue
            if rows + job.rows > limit:
                return jobs, True
            jobs.append(job)
            rows += job.rows
        return jobs, rows >= limit or not self._splits

    def _finish(self, jobs: List[_Job], limit: int) -> None:
        rows = sum(job.rows for job in jobs)
        started = time.monotonic()
        try:
            inputs = {name: join([job.inputs[name] for job in jobs]) for name in jobs[0].inputs}
            outputs = self._run(inputs)
            results = self._split(outputs, jobs, rows)
        except Exception as e:
            for job in jobs:
                job.result.set_exception(e)
            return
        seconds = time.monotonic() - started
        with self._changed:
            self._speed.learn(rows, seconds)
        self._on_batch(rows, limit, seconds)
        for job, result in zip(jobs, results):
            job.result.set_result(result)

    def _split(self, outputs: Tensors, jobs: List[_Job], rows: int) -> List[Tensors]:
        if not self._splits:
            return [outputs]
        for name, tensor in outputs.items():
            if not tensor.shape or tensor.shape[0] != rows:
                raise TensorError(f"the output {name!r} has the shape {list(tensor.shape)}, and "
                                  f"the batch has {rows} rows")
        results = []
        first = 0
        for job in jobs:
            end = first + job.rows
            results.append({name: t.rows(first, end) for name, t in outputs.items()})
            first = end
        return results
