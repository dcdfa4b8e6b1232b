"""Tests of the queue in front of a model, and of the bounds that follow from its speed."""

import threading
import time
import unittest
from typing import Any, Dict, List

from gpumux.server import Tensor, TensorError
from gpumux.server.batcher import Batcher, Full
from gpumux.server.speed import (QUEUE_BATCHES_FIRST, QUEUE_ROWS_MAX, Speed, queue_rows, retry_s,
                                 wait_s)

WAIT_S = 60.0


class Gate:
    """A model that waits until the test opens the gate, and keeps the sizes of its batches."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.batches: List[List[Any]] = []

    def __call__(self, inputs: Dict[str, Tensor]) -> Dict[str, Tensor]:
        self.batches.append([row[0] for row in inputs["x"].tolist()])
        self.entered.set()
        if not self.open.wait(WAIT_S):
            raise TimeoutError
        return inputs


def tensor(*rows: int) -> Dict[str, Tensor]:
    return {"x": Tensor.of([[row] for row in rows])}


class Batches(unittest.TestCase):
    def setUp(self) -> None:
        self.model = Gate()
        self.limit = 8

    def batcher(self, **options: Any) -> Batcher:
        batcher = Batcher(self.model, lambda: self.limit, **options)
        self.addCleanup(batcher.close)
        self.addCleanup(self.model.open.set)
        return batcher

    def submit(self, batcher: Batcher, *rows: int) -> Any:
        return batcher.submit(tensor(*rows), len(rows), time.monotonic())

    def blocked(self, batcher: Batcher) -> Any:
        first = self.submit(batcher, 0)
        self.assertTrue(self.model.entered.wait(WAIT_S))
        return first

    def test_waiting_requests_join(self) -> None:
        batcher = self.batcher()
        futures = [self.blocked(batcher)] + [self.submit(batcher, 2 * i, 2 * i + 1)
                                             for i in range(1, 6)]
        self.assertEqual(batcher.waiting()[0], 10)
        self.model.open.set()
        results = [future.result(WAIT_S)["x"].tolist() for future in futures]
        self.assertEqual(results, [[[0]]] + [[[2 * i], [2 * i + 1]] for i in range(1, 6)])
        self.assertEqual(self.model.batches, [[0], [2, 3, 4, 5, 6, 7, 8, 9], [10, 11]])

    def test_limit_changes_live(self) -> None:
        batcher = self.batcher()
        futures = [self.blocked(batcher)] + [self.submit(batcher, i) for i in range(1, 7)]
        self.limit = 2
        self.model.open.set()
        for future in futures:
            future.result(WAIT_S)
        self.assertEqual(self.model.batches, [[0], [1, 2], [3, 4], [5, 6]])

    def test_larger_request_runs_alone(self) -> None:
        batcher = self.batcher()
        self.limit = 2
        futures = [self.blocked(batcher), self.submit(batcher, 1, 2, 3), self.submit(batcher, 4)]
        self.model.open.set()
        for future in futures:
            future.result(WAIT_S)
        self.assertEqual(self.model.batches, [[0], [1, 2, 3], [4]])

    def test_other_shapes_do_not_join(self) -> None:
        batcher = self.batcher()
        wide = {"x": Tensor.of([[7, 8]])}
        futures = [self.blocked(batcher), self.submit(batcher, 1),
                   batcher.submit(wide, 1, time.monotonic()), self.submit(batcher, 2)]
        self.model.open.set()
        for future in futures:
            future.result(WAIT_S)
        self.assertEqual(self.model.batches, [[0], [1, 2], [7]])

    def test_without_axis_requests_run_alone(self) -> None:
        batcher = self.batcher(splits=False)
        futures = [self.blocked(batcher), self.submit(batcher, 1, 2), self.submit(batcher, 3)]
        self.model.open.set()
        for future in futures:
            future.result(WAIT_S)
        self.assertEqual(self.model.batches, [[0], [1, 2], [3]])

    def test_full_queue_refuses(self) -> None:
        batcher = self.batcher(rows_max=3)
        self.blocked(batcher)
        self.submit(batcher, 1, 2)
        self.submit(batcher, 3)
        with self.assertRaises(Full) as caught:
            self.submit(batcher, 4)
        self.assertEqual(caught.exception.retry_s, 1)
        self.assertEqual(batcher.waiting(), (3, 3))

    def test_request_waits_for_company(self) -> None:
        """With an hour of slack, only a full batch ends the wait."""
        batcher = self.batcher(target=3600.0)
        self.limit = 3
        self.model.open.set()
        self.blocked(batcher).result(WAIT_S)
        self.model.open.clear()
        self.model.entered.clear()
        second = self.blocked(batcher)
        futures = [self.submit(batcher, 1), self.submit(batcher, 2)]
        self.model.open.set()
        second.result(WAIT_S)
        futures.append(self.submit(batcher, 3))
        for future in futures:
            future.result(WAIT_S)
        self.assertEqual(self.model.batches, [[0], [0], [1, 2, 3]])

    def test_failed_batch_fails_its_requests(self) -> None:
        def fail(inputs: Any) -> Any:
            if inputs["x"].flat() == [1]:
                raise KeyError("no")
            return {"x": Tensor.of([1, 2, 3])} if inputs["x"].flat() == [2] else inputs
        batcher = Batcher(fail, lambda: 1)
        self.addCleanup(batcher.close)
        self.assertIsInstance(self.submit(batcher, 1).exception(WAIT_S), KeyError)
        self.assertIsInstance(self.submit(batcher, 2).exception(WAIT_S), TensorError)
        self.assertEqual(self.submit(batcher, 3).result(WAIT_S)["x"].flat(), [3])

    def test_close_finishes_queue(self) -> None:
        batcher = self.batcher(target=3600.0)
        futures = [self.blocked(batcher), self.submit(batcher, 1)]
        closer = threading.Thread(target=batcher.close)
        closer.start()
        with batcher._changed:
            self.assertTrue(batcher._changed.wait_for(lambda: batcher._closed, WAIT_S))
        with self.assertRaises(Full):
            self.submit(batcher, 2)
        self.model.open.set()
        closer.join(WAIT_S)
        self.assertEqual([f.result(0)["x"].flat() for f in futures], [[0], [1]])


class Bounds(unittest.TestCase):
    def learnt(self, *batches: Any) -> Speed:
        speed = Speed()
        for rows, seconds in batches:
            speed.learn(rows, seconds)
        return speed

    def test_latency_is_learnt(self) -> None:
        self.assertIsNone(Speed().latency(1))
        line = self.learnt(*[(n, 0.01 + 0.001 * n) for n in (1, 8, 2, 32, 16)])
        for n in (1, 4, 32, 64):
            self.assertAlmostEqual(line.latency(n) or 0, 0.01 + 0.001 * n)
        same = self.learnt((4, 0.02), (4, 0.02))
        self.assertAlmostEqual(same.latency(8) or 0, 0.04)
        self.assertAlmostEqual(same.latency(1) or 0, 0.02)
        moved = self.learnt(*[(4, 0.02)] * 50, *[(4, 0.04)] * 50)
        self.assertAlmostEqual(moved.latency(4) or 0, 0.04, places=3)
        self.assertGreater(self.learnt((1, 1.0), (100, 0.1)).latency(200) or 0, 0)

    def test_wait_is_half_of_slack(self) -> None:
        speed = self.learnt((8, 0.02))
        self.assertAlmostEqual(wait_s(speed, 8, 0.1), 0.04)
        self.assertEqual(wait_s(speed, 8, 0.01), 0)
        self.assertEqual(wait_s(speed, 8, None), 0)
        self.assertEqual(wait_s(Speed(), 8, 0.1), 0)

    def test_queue_follows_target_and_speed(self) -> None:
        speed = self.learnt((8, 0.02))
        self.assertEqual(queue_rows(Speed(), 8, 0.1), 8 * QUEUE_BATCHES_FIRST)
        self.assertIn(queue_rows(speed, 8, 0.1), (31, 32))  # 80 ms, and 20 ms for each 8 rows
        self.assertEqual(queue_rows(speed, 8, 0.01), 8)
        self.assertIn(queue_rows(speed, 8, None), (3999, 4000))
        self.assertEqual(queue_rows(self.learnt((8, 0.0)), 8, 1.0), QUEUE_ROWS_MAX)
        self.assertEqual(retry_s(self.learnt((8, 2.0)), 8, 12), 3)
        self.assertEqual(retry_s(speed, 8, 0), 1)


if __name__ == "__main__":
    unittest.main()
