"""Tests of gpumux.serve over HTTP: routes, requests, streams, counts and the end."""

import contextlib
import http.client
import io
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple
from unittest import mock

import gpumux
from gpumux import _library
from gpumux.server import Server, Tensor
from test_gpumux import Supervisor

WAIT_S = 60.0
INFER = "/v2/models/model/infer"
STREAM = "/v2/models/model/generate_stream"


def double(inputs: Dict[str, Tensor]) -> Any:
    x = inputs["x"]
    return {"y": Tensor.of([2 * value for value in x.flat()], x.datatype, x.shape)}


def count_up(inputs: Dict[str, Tensor]) -> Iterator[Any]:
    for i in range(inputs["x"].flat()[0]):
        if i == 5:
            raise KeyError("five")
        yield [i]


def body_of(*rows: int) -> bytes:
    return json.dumps({"inputs": [{"name": "x", "datatype": "INT32", "shape": [len(rows), 1],
                                   "data": rows}]}).encode()


class Case(unittest.TestCase):
    """A server on a thread, with a client."""

    def serve(self, model: Callable[..., Any], **options: Any) -> Server:
        said = io.StringIO()
        quiet = contextlib.redirect_stderr(said)
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)
        self.server = Server(model, port=0, **options)
        self.server.start()
        self.addCleanup(self.server.stop)
        return self.server

    def ask(self, method: str, path: str, body: Optional[bytes] = None,
            headers: Optional[Dict[str, str]] = None) -> Tuple[int, bytes, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=WAIT_S)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers

    def infer(self, *rows: int) -> Any:
        status, body, _ = self.ask("POST", INFER, body_of(*rows))
        return json.loads(body)["outputs"][0]["data"] if status == 200 else status

    def apart(self, rows: List[int], answers: Dict[int, Any]) -> List[threading.Thread]:
        """Send a request of one row for each of the values, each on a thread."""
        def one(row: int) -> None:
            answers[row] = self.infer(row)
        threads = [threading.Thread(target=one, args=(row,)) for row in rows]
        for thread in threads:
            thread.start()
        return threads


class Routes(Case):
    def test_protocol_pages_answer(self) -> None:
        self.serve(double, name="net", inputs={"x": ("INT32", (-1, 1))},
                   outputs={"y": ("INT32", (-1, 1))})
        for path, want in (("/v2", {"extensions": ["binary_tensor_data"]}),
                           ("/v2/health/live", {"live": True}),
                           ("/v2/health/ready", {"ready": True}),
                           ("/v2/models/net/ready", {"ready": True}),
                           ("/v2/models/net", {"inputs": [{"name": "x", "datatype": "INT32",
                                                           "shape": [-1, 1]}]})):
            status, body, _ = self.ask("GET", path)
            self.assertEqual(status, 200, path)
            self.assertLessEqual(want.items(), json.loads(body).items())
        self.assertEqual(self.ask("GET", INFER)[0], 404)
        self.assertEqual(self.ask("POST", INFER, b"x" * 10)[0], 404)
        status, _, headers = self.ask("POST", "/v2")
        self.assertEqual((status, headers["Allow"]), (405, "GET"))
        self.assertEqual(self.ask("GET", "/v2/models/net/infer")[0], 405)

    def test_json_and_binary_round_trip(self) -> None:
        self.serve(double)
        status, body, _ = self.ask("POST", INFER, body_of(3, 4))
        self.assertEqual((status, json.loads(body)), (200, {"model_name": "model", "outputs": [
            {"name": "y", "datatype": "INT32", "shape": [2, 1], "data": [6, 8]}]}))
        head = json.dumps({"parameters": {"binary_data_output": True}, "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [1, 40000],
             "parameters": {"binary_data_size": 160000}}]}).encode()
        values = [i / 4 for i in range(40000)]
        status, body, headers = self.ask("POST", INFER, head + struct.pack("<40000f", *values), {
            "Inference-Header-Content-Length": str(len(head))})
        length = int(headers["Inference-Header-Content-Length"])
        self.assertEqual(json.loads(body[:length])["outputs"][0]["parameters"],
                         {"binary_data_size": 160000})
        self.assertEqual(list(struct.unpack("<40000f", body[length:])), [2 * v for v in values])

    def test_arguments_follow_inputs(self) -> None:
        self.serve(lambda x: (x, [1]), as_dict=False, max_batch=0,
                   inputs={"x": ("INT32", (-1, 1))})
        status, body, _ = self.ask("POST", INFER, body_of(3, 4))
        self.assertEqual([(o["name"], o["data"]) for o in json.loads(body)["outputs"]],
                         [("output0", [3, 4]), ("output1", [1])])

    def test_connection_serves_many_requests(self) -> None:
        self.serve(double)
        with socket.create_connection(("127.0.0.1", self.server.port), WAIT_S) as peer:
            body = body_of(1)
            chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
            text = f"POST {INFER} HTTP/1.1\r\n".encode()
            peer.sendall(text + b"Content-Length: %d\r\n\r\n" % len(body) + body + text
                         + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n" + text
                         + b"Content-Length: %d\r\nExpect: 100-continue\r\n" % len(body)
                         + b"Connection: close\r\n\r\n" + body)
            with peer.makefile("rb") as file:
                said = file.read()
        self.assertEqual(said.count(b"HTTP/1.1 200 OK"), 3)
        self.assertEqual(said.count(b"HTTP/1.1 100 Continue"), 1)
        self.assertEqual(said.count(b'"data":[2]'), 3)

    def test_malformed_requests_get_reason(self) -> None:
        self.serve(double, max_batch=2, max_body=1000, inputs={"x": ("INT32", (-1, 1))})
        other = body_of(1).replace(b'"x"', b'"z"')
        flat = body_of(1).replace(b"[1, 1]", b"[1]")
        for body, headers, status, fault in (
                (b"{", {}, 400, "not JSON"), (other, {}, 400, "inputs must be x, and are z"),
                (flat, {}, 400, "must be INT32"), (body_of(1, 2, 3), {}, 400, "3 rows"),
                (body_of(), {}, 400, "axis 0"), (b" " * 1001, {}, 413, "more than 1000"),
                (body_of(1), {"Inference-Header-Content-Length": "-1"}, 400, "number"),
                (body_of(1), {"Content-Length": "x"}, 400, "Content-Length"),
                (body_of(1), {"Transfer-Encoding": "gzip"}, 501, "chunked"),
                (b"x\r\n", {"Transfer-Encoding": "chunked"}, 400, "chunk"),
                (b"3e9\r\n", {"Transfer-Encoding": "chunked"}, 413, "more than 1000"),
                (body_of(1), {"A": "a" * 20000}, 431, "16384")):
            with self.subTest(body=body[:60], headers=list(headers)):
                got, text, _ = self.ask("POST", INFER, body, headers)
                self.assertEqual(got, status)
                self.assertIn(fault, json.loads(text)["error"])
        self.assertEqual(self.infer(4), [8])

    def test_failed_model_gets_500(self) -> None:
        self.serve(lambda inputs: {"y": 1 / inputs["x"].flat()[0]}, max_batch=0)
        self.assertEqual(self.infer(0), 500)
        self.assertEqual(self.infer(2), [0.5])


class Batching(Case):
    def blocked(self, **options: Any) -> Tuple[List[int], threading.Event, Dict[int, Any], Any]:
        """A server whose model waits, with a first request in the model."""
        batches: List[int] = []
        entered, gate = threading.Event(), threading.Event()

        def model(inputs: Any) -> Any:
            batches.append(inputs["x"].shape[0])
            entered.set()
            self.assertTrue(gate.wait(WAIT_S))
            return double(inputs)
        self.serve(model, **options)
        self.addCleanup(gate.set)
        answers: Dict[int, Any] = {}
        threads = self.apart([0], answers)
        self.assertTrue(entered.wait(WAIT_S))
        return batches, gate, answers, threads

    def test_concurrent_requests_join(self) -> None:
        batches, gate, answers, threads = self.blocked(target=30.0)
        threads += self.apart(list(range(1, 9)), answers)
        self.assertTrue(self.server.service.batcher.wait_until_waiting(8, WAIT_S))
        with mock.patch.object(gpumux, "batch_size", lambda most: 4):  # advice, from now on
            gate.set()
            for thread in threads:
                thread.join(WAIT_S)
        self.assertEqual(batches, [1, 4, 4])
        self.assertEqual(answers, {i: [2 * i] for i in range(9)})

    def test_full_queue_gets_503(self) -> None:
        _, gate, answers, threads = self.blocked(max_queue=2)
        threads += self.apart([1, 2], answers)
        self.assertTrue(self.server.service.batcher.wait_until_waiting(2, WAIT_S))
        status, body, headers = self.ask("POST", INFER, body_of(3))
        self.assertEqual((status, headers["Retry-After"]), (503, "1"))
        self.assertIn("2 rows wait", json.loads(body)["error"])
        page = self.ask("GET", "/metrics")[1].decode()
        self.assertIn('gpumux_serve_queue_rows{model="model"} 2\n', page)
        gate.set()
        for thread in threads:
            thread.join(WAIT_S)
        self.assertEqual(answers, {0: [0], 1: [2], 2: [4]})

    def test_drain_finishes_and_refuses(self) -> None:
        _, gate, answers, threads = self.blocked()
        self.server.drain()
        while self.ask("GET", "/v2/health/ready")[0] == 200:
            pass  # the loop has not seen the call yet
        self.assertEqual(self.ask("GET", "/v2/health/live")[0], 200)
        self.assertEqual(self.infer(1), 503)
        gate.set()
        self.server.stop()
        threads[0].join(WAIT_S)
        self.assertEqual(answers, {0: [0]})
        with self.assertRaises(OSError):
            self.infer(2)


class Streams(Case):
    def stream(self, rows: int) -> Tuple[int, List[str], str]:
        status, body, headers = self.ask("POST", STREAM, body_of(rows))
        return status, body.decode().split("\n\n"), headers["Content-Type"]

    def test_generator_sends_events(self) -> None:
        self.serve(count_up)
        status, events, kind = self.stream(3)
        self.assertEqual((status, kind, events[3:]), (200, "text/event-stream", [""]))
        values = [json.loads(event[len("data: "):])["outputs"][0]["data"] for event in events[:3]]
        self.assertEqual(values, [[0], [1], [2]])
        self.assertEqual(self.stream(0)[:2], (200, [""]))
        self.assertEqual(self.infer(1), 400)

    def test_failure_ends_stream_with_error(self) -> None:
        self.serve(count_up)
        status, events, _ = self.stream(9)
        self.assertEqual((status, len(events)), (200, 7))
        self.assertTrue(events[5].startswith("event: error\n"))
        self.assertIn("KeyError", events[5])

    def test_binary_stream_gets_400(self) -> None:
        self.serve(count_up)
        request = json.loads(body_of(1))
        request["parameters"] = {"binary_data_output": True}
        status, body, _ = self.ask("POST", STREAM, json.dumps(request).encode())
        self.assertEqual(status, 400)
        self.assertIn(b"binary", body)

    def test_function_sends_one_event(self) -> None:
        self.serve(double)
        self.assertEqual(len(self.stream(3)[1]), 2)

    def test_further_streams_get_503(self) -> None:
        gate = threading.Event()

        def wait(inputs: Any) -> Iterator[Any]:
            yield [1]
            self.assertTrue(gate.wait(WAIT_S))
        self.serve(wait, max_streams=1)
        self.addCleanup(gate.set)
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=WAIT_S)
        with contextlib.closing(connection):
            connection.request("POST", STREAM, body_of(1))
            answer = connection.getresponse()
            self.assertIn(b'"data":[1]', answer.readline())  # before the generator has ended
            self.assertEqual(self.stream(1)[0], 503)
            gate.set()
            answer.read()
        self.assertEqual(self.stream(1)[0], 200)


class Reports(Case):
    def test_metrics_count(self) -> None:
        self.serve(double, target=0.0123)
        self.infer(1, 2, 3)
        self.ask("POST", INFER, b"{")
        _, body, headers = self.ask("GET", "/metrics")
        page = body.decode()
        self.assertTrue(headers["Content-Type"].startswith("text/plain"))
        for line in ('requests_total{model="model"} 2', 'batch_rows_sum{model="model"} 3.0',
                     'failures_total{model="model",status="400"} 1',
                     'request_latency_seconds_count{model="model"} 1',
                     'batch_limit_rows{model="model"} 32', 'queue_rows{model="model"} 0',
                     'batch_rows_bucket{model="model",le="2"} 0',
                     'batch_rows_bucket{model="model",le="4"} 1'):
            self.assertIn(f"gpumux_serve_{line}\n", page)
        bounds = [float(b) for b in re.findall(r'latency_seconds_bucket.*le="([^"]+)"', page)]
        self.assertEqual(bounds, sorted(bounds))
        self.assertIn(0.0123, bounds)
        self.assertEqual(bounds[-1], float("inf"))
        for line in page.splitlines():
            self.assertRegex(line, r'^(# (HELP|TYPE) \w+ .+|\w+\{[^}]+\} [0-9.e+-]+)$')

    def test_requests_reach_gpumux(self) -> None:
        calls: List[Any] = []

        class Recorder:
            def __init__(self, age: float) -> None:
                calls.append(0 <= age < WAIT_S)
                self.open = True

            def begin(self) -> "Recorder":
                return self

            def end(self) -> None:
                calls.append("end")
                self.open = False

            def drop(self) -> None:
                if self.open:
                    calls.append("drop")
        with mock.patch.object(gpumux, "request", Recorder), \
                mock.patch.object(gpumux, "ready", lambda: calls.append("ready")):
            self.serve(double)
            self.infer(1)
            self.ask("POST", INFER, b"{")
            self.ask("GET", "/v2")
            self.server.stop()
        self.assertEqual(calls, ["ready", True, "end", True, "drop"])


class Programs(unittest.TestCase):
    """The command, as a process."""

    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = place.name
        with open(os.path.join(place.name, "net.py"), "w", encoding="utf-8") as file:
            file.write("import os\n"
                       "def model(inputs):\n"
                       "    if inputs['x'].flat() == [7]:\n"
                       "        open('entered', 'w').close()\n"
                       "        open('gate').close()\n"
                       "    return inputs['x']\n")
        for name in ("entered", "gate"):
            os.mkfifo(os.path.join(place.name, name))

    def start(self, *words: str, **environment: str) -> int:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gpumux.serve", *words], stderr=subprocess.PIPE, text=True,
            cwd=self.place, env={**os.environ, **environment})
        self.addCleanup(self.finish)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        match = re.search(r"port=(\d+)", line)
        self.assertIsNotNone(match, line)
        return int(match[1]) if match else 0

    def finish(self) -> None:
        self.process.kill()
        self.process.communicate()

    def ask(self, port: int, method: str, path: str, body: Optional[bytes] = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
        with contextlib.closing(connection):
            connection.request(method, path, body)
            answer = connection.getresponse()
            answer.read()
            return answer.status

    def test_sigterm_drains_and_reports(self) -> None:
        path = os.path.join(self.place, "control.sock")
        supervisor = Supervisor(path)
        self.addCleanup(supervisor.close)
        port = self.start("net:model", GPUMUX_CONTROL=path, GPUMUX_WORKLOAD_ID="1",
                          GPUMUX_WORKLOAD_NAME="net", GPUMUX_ATTEMPT="1", GPUMUX_NODE="a",
                          GPUMUX_PORT="0")
        answers: List[int] = []
        client = threading.Thread(
            target=lambda: answers.append(self.ask(port, "POST", INFER, body_of(7))))
        client.start()
        with open(os.path.join(self.place, "entered"), encoding="utf-8"):
            self.process.terminate()
        while self.ask(port, "GET", "/v2/health/ready") == 200:
            pass  # the signal has not arrived yet
        self.assertEqual(self.ask(port, "POST", INFER, body_of(1)), 503)
        with open(os.path.join(self.place, "gate"), "w", encoding="utf-8"):
            client.join(WAIT_S)
        self.assertEqual(answers, [200])
        self.assertEqual(self.process.wait(WAIT_S), 0)
        if _library.load() is not None:
            self.assertTrue(supervisor.hears(b"ready"))
            self.assertTrue(supervisor.latencies(1))
            self.assertEqual(supervisor.packets.count(b"ready"), 1)

    def test_wrong_command_line_fails(self) -> None:
        for words in (["net"], ["net:none"], ["none:model"], ["net:model", "--max-batch", "-1"],
                      ["net:model", "--target", "fast"]):
            with self.subTest(words=words):
                done = subprocess.run([sys.executable, "-m", "gpumux.serve", *words],
                                      stderr=subprocess.PIPE, text=True, cwd=self.place,
                                      timeout=WAIT_S)
                self.assertIn(done.returncode, (1, 2))
                self.assertNotIn("Traceback", done.stderr)

    def test_load_generator_is_answered(self) -> None:
        program = os.path.join(os.environ.get("GPUMUX_BUILD", ""), "src/cli/gpumux")
        if not os.access(program, os.X_OK):
            self.skipTest("the executable gpumux is not built")
        port = self.start("net:model", "--port", "0", "--target", "1s")
        for words in (["--binary"], []):
            done = subprocess.run([program, "load", f"127.0.0.1:{port}", "--oip", "model",
                                   "--tensor", "x:FP32:1x8", *words, "--rate", "500/s",
                                   "--requests", "50", "--json", "-"], stdout=subprocess.PIPE,
                                  timeout=WAIT_S, check=True)
            result = json.loads(done.stdout)
            self.assertEqual((result["answered"], result["failed"]), (50, 0))


if __name__ == "__main__":
    unittest.main()
