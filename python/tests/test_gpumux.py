"""Tests of the package against libgpumux and a supervisor's socket of the test's own."""

import ctypes
import os
import re
import socket
import tempfile
import threading
import time
import unittest
from typing import Any, List, Optional
from unittest import mock

import gpumux
from gpumux import _library

WAIT_S = 60.0
VARIABLES = ("WORKLOAD_ID", "WORKLOAD_NAME", "ATTEMPT", "NODE", "CONTROL", "SHARE_MIN", "SHARE_MAX",
             "QUOTA_BYTES", "ARRAY_INDEX", "BATCH_SIZE", "BATCH_SIZE_MIN", "BATCH_SIZE_MAX",
             "BATCH_SIZE_STEP")


class Supervisor:
    """A socket that keeps what programs send, and answers."""

    def __init__(self, path: str) -> None:
        self.advice = b"ok 0 0 0"
        self.packets: List[bytes] = []
        self.changed = threading.Condition()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        self.listener.listen(16)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer: socket.socket) -> None:
        with peer:
            while True:
                try:
                    packet = peer.recv(65536)
                except ConnectionResetError:
                    continue  # the peer closed without reading a reply; its last packets follow
                if not packet:
                    return
                with self.changed:
                    self.packets.append(packet)
                    self.changed.notify_all()
                try:
                    peer.send(self.advice if packet.startswith(b"advice") else b"ok")
                except OSError:
                    pass  # the peer has gone

    def hears(self, packet: bytes) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: packet in self.packets, WAIT_S)

    def latencies(self, count: int) -> bool:
        """Wait until that many requests have been reported."""
        def reported() -> bool:
            lines = [line for p in self.packets if p.startswith(b"latency") for line in
                     p.decode().split("\n")[1:] if line]
            return sum(int(line.split()[1]) for line in lines) >= count
        with self.changed:
            return self.changed.wait_for(reported, WAIT_S)

    def close(self) -> None:
        self.listener.close()


class Outside(unittest.TestCase):
    def check(self, session: gpumux.Session) -> None:
        self.assertFalse(session.active)
        self.assertTrue(session.report_progress(5))
        self.assertTrue(session.report_latency(0.1))
        self.assertEqual(session.batch_size(64), 64)
        session.use_batch(64)
        self.assertFalse(session.checkpoint_wanted())
        self.assertTrue(session.ready(1))
        with session.request() as request:
            request.drop()
        self.assertEqual((session.workload_id, session.workload_name, session.attempt,
                          session.array_index, session.node_name, session.quota_bytes,
                          session.share_min_percent, session.share_max_percent,
                          session.batch_size_min, session.batch_size_max, session.batch_size_step),
                         (0, "", 0, None, "", 0, 0, 100, 0, 0, 0))
        session.close()

    def test_outside_every_call_does_nothing(self) -> None:
        with mock.patch.dict(os.environ):
            for name in VARIABLES:
                os.environ.pop("GPUMUX_" + name, None)
            self.assertIsNotNone(_library.load())
            self.check(gpumux.open())

    def test_missing_library_does_nothing(self) -> None:
        with mock.patch.object(_library, "load", lambda: _load("libgpumux-missing.so.0")):
            self.check(gpumux.open())

    def test_foreign_library_does_nothing(self) -> None:
        self.assertIsNone(_load("libc.so.6"))

    def test_wrong_arguments_raise(self) -> None:
        session = gpumux.open()
        for call in (lambda: session.report_progress(-1),
                     lambda: session.report_progress(gpumux.PROGRESS_MAX + 1),
                     lambda: session.report_latency(-0.1),
                     lambda: session.report_latency(float("nan")),
                     lambda: session.request(-1), lambda: session.ready(-1),
                     lambda: session.use_batch(-1), lambda: session.batch_size(2**64)):
            with self.assertRaises(ValueError):
                call()


_load = _library.load


class Inside(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "control.sock")
        self.supervisor = Supervisor(path)
        self.addCleanup(self.supervisor.close)
        environment = {"GPUMUX_CONTROL": path, "GPUMUX_WORKLOAD_ID": "17", "GPUMUX_ATTEMPT": "2",
                       "GPUMUX_WORKLOAD_NAME": "träger", "GPUMUX_NODE": "a",
                       "GPUMUX_BATCH_SIZE": "128", "GPUMUX_BATCH_SIZE_MIN": "32",
                       "GPUMUX_BATCH_SIZE_MAX": "512", "GPUMUX_BATCH_SIZE_STEP": "16",
                       "GPUMUX_QUOTA_BYTES": "8589934592", "GPUMUX_SHARE_MAX": "40"}
        patch = mock.patch.dict(os.environ, environment)
        patch.start()
        self.addCleanup(patch.stop)
        self.session = gpumux.open()
        self.addCleanup(self.session.close)

    def test_facts_come_from_environment(self) -> None:
        s = self.session
        self.assertTrue(s.active)
        self.assertEqual((s.workload_id, s.workload_name, s.attempt, s.array_index, s.node_name),
                         (17, "träger", 2, None, "a"))
        self.assertEqual((s.quota_bytes, s.share_min_percent, s.share_max_percent),
                         (8 << 30, 0, 40))
        self.assertEqual((s.batch_size(64), s.batch_size_min, s.batch_size_max, s.batch_size_step),
                         (128, 32, 512, 16))

    def test_progress_and_close_send_counts(self) -> None:
        self.assertTrue(self.session.report_progress(5))
        self.assertTrue(self.supervisor.hears(b"progress 5"))
        self.assertTrue(self.session.report_progress(6))
        self.session.close()
        self.assertTrue(self.supervisor.hears(b"progress 6"))
        self.assertFalse(self.session.active)
        self.assertTrue(self.session.report_progress(7))

    def test_advice_is_followed(self) -> None:
        self.supervisor.advice = b"ok 3 200 1"
        end = time.monotonic() + 30
        count = 1 << 40
        while self.session.batch_size(64) != 192 and time.monotonic() < end:
            count -= 1  # a smaller count is sent at once, and reads the answers
            self.session.report_progress(count)
            time.sleep(0.001)
        self.assertEqual(self.session.batch_size(64), 192)
        self.assertTrue(self.session.checkpoint_wanted())
        self.assertFalse(self.session.checkpoint_wanted())
        self.session.use_batch(192)
        self.session.report_progress(0)
        self.assertTrue(self.supervisor.hears(b"advice 3 192"))

    def test_requests_are_counted_unless_dropped(self) -> None:
        with self.session.request(age=0.5):
            pass
        with self.assertRaises(KeyError):
            with self.session.request():
                raise KeyError
        request = self.session.request().begin()
        self.assertTrue(request.end())
        self.assertTrue(request.end())
        self.session.report_latency(float("inf"))
        self.session.close()
        self.assertTrue(self.supervisor.latencies(3))
        self.assertFalse(any(re.search(rb" [4-9]\n", p) for p in self.supervisor.packets))

    def test_ready_waits_for_answer(self) -> None:
        self.assertTrue(self.session.ready(timeout=WAIT_S))
        self.assertTrue(self.supervisor.hears(b"ready"))

    def test_unreachable_supervisor_is_reported(self) -> None:
        os.unlink(os.environ["GPUMUX_CONTROL"])
        self.assertFalse(self.session.report_progress(1))
        self.assertFalse(self.session.ready())

    def test_threads_share_session_of_process(self) -> None:
        with mock.patch.object(gpumux, "_session", None):
            found: List[Any] = []
            threads = [threading.Thread(target=lambda: found.append(gpumux.session()))
                       for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(len({id(s) for s in found}), 1)
            self.assertEqual(gpumux.batch_size(64), 128)
            self.assertTrue(gpumux.report_progress(9))
            gpumux.use_batch(128)
            self.assertFalse(gpumux.checkpoint_wanted())
            with gpumux.request():
                pass
            self.assertTrue(gpumux.report_latency(0.001))
            self.assertTrue(gpumux.ready())
            gpumux.session().close()

    def test_older_library_counts_latency(self) -> None:
        """A library without the calls that came later."""
        library = _load()
        assert library is not None
        for name in ("request_begin", "request_end", "request_drop", "use_batch",
                     "checkpoint_wanted"):
            library._calls[name] = None
        with mock.patch.object(_library, "load", lambda: library):
            with gpumux.open() as session:
                with session.request(age=0.2):
                    pass
                session.use_batch(5)
                self.assertFalse(session.checkpoint_wanted())
        self.assertTrue(self.supervisor.latencies(1))


if __name__ == "__main__":
    unittest.main()
