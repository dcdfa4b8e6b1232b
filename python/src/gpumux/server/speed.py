"""The learned latency of a batch, and the bounds that follow from the latency and the target."""

import math
from typing import Optional

QUEUE_ROWS_MAX = 65536
QUEUE_BATCHES_FIRST = 8  # of a queue before any batch was measured
QUEUE_S_WITHOUT_TARGET = 10.0
RETRY_S_MAX = 60
_DECAY = 0.9  # the weight of a batch falls to a third after ten more batches


class Speed:
    """Latency over rows: a line through the measured batches, in which newer batches weigh more."""

    def __init__(self) -> None:
        self._weight = self._x = self._y = self._xx = self._xy = 0.0

    def learn(self, rows: int, seconds: float) -> None:
        """Add a measured batch."""
        sums = (self._weight, self._x, self._y, self._xx, self._xy)
        new = (1.0, rows, seconds, rows * rows, rows * seconds)
        self._weight, self._x, self._y, self._xx, self._xy = (
            _DECAY * old + add for old, add in zip(sums, new))

    def latency(self, rows: int) -> Optional[float]:
        """Return the expected latency of a batch in seconds. None: no batch was measured.

        Batches of one size show no slope: a larger batch is then assumed to take proportionally
        longer, and a smaller batch no less time.
        """
        if self._weight == 0:
            return None
        x, y = self._x / self._weight, self._y / self._weight
        variance = self._xx / self._weight - x * x
        if variance < 0.01 * x * x:
            return y * max(1.0, rows / x)
        slope = max(0.0, (self._xy / self._weight - x * y) / variance)
        return max(y + slope * (rows - x), 0.1 * y)


def wait_s(speed: Speed, limit: int, target: Optional[float]) -> float:
    """Return the time for which a request may wait for others: half of the target's slack."""
    latency = speed.latency(limit)
    if target is None or latency is None:
        return 0.0
    return max(0.0, (target - latency) / 2)


def queue_rows(speed: Speed, limit: int, target: Optional[float]) -> int:
    """Return how many rows may wait: as many as the model can start before a request that waits
    misses its target, and at least one batch."""
    latency = speed.latency(limit)
    if latency is None:
        return min(limit * QUEUE_BATCHES_FIRST, QUEUE_ROWS_MAX)
    slack = QUEUE_S_WITHOUT_TARGET if target is None else target - latency
    rows = slack / max(latency, 1e-6) * limit
    return int(min(max(rows, limit), QUEUE_ROWS_MAX))


def retry_s(speed: Speed, limit: int, rows: int) -> int:
    """Return after how many whole seconds the rows that wait now will be gone."""
    latency = speed.latency(limit) or 0.0
    return min(max(1, math.ceil(latency * rows / limit)), RETRY_S_MAX)
