"""Tests of tensors, of the Open Inference Protocol, and of the heads of HTTP, without a socket."""

import array
import json
import math
import os
import random
import struct
import unittest
from typing import Any, Dict

from gpumux.server import Tensor, TensorError
from gpumux.server.codec import CodecError, decode, encode
from gpumux.server.convert import Model, as_tensor
from gpumux.server.http1 import HttpError, parse_head
from gpumux.server.options import Options
from gpumux.server.tensor import DATATYPES, join

X: Dict[str, Any] = {"name": "x", "datatype": "FP32", "shape": [2, 1], "data": [1.5, 2.5]}


def text(**fields: Any) -> bytes:
    return json.dumps({"inputs": [X], **fields}).encode()


def one(**fields: Any) -> bytes:
    return text(inputs=[{**X, **fields}])


class Tensors(unittest.TestCase):
    def test_values_survive_every_datatype(self) -> None:
        for datatype in sorted(DATATYPES):
            values: Any = ([["ä".encode(), b""], [b"\xff", b"x"]] if datatype == "BYTES" else
                           [[True, False], [False, True]] if datatype == "BOOL" else
                           [[0, 1], [2, 100]])
            tensor = Tensor.of(values, datatype)
            self.assertEqual((tensor.shape, tensor.tolist()), ((2, 2), values), datatype)
            joined = join([tensor.rows(1, 2), tensor.rows(0, 1)])
            self.assertEqual(joined.tolist(), [values[1], values[0]], datatype)

    def test_bf16_rounds_to_nearest(self) -> None:
        values = Tensor.of([1.0, 1.00390625, 1.01171875, -3.0, math.inf], "BF16").flat()
        self.assertEqual(values, [1.0, 1.0, 1.015625, -3.0, math.inf])
        self.assertTrue(math.isnan(Tensor.of([math.nan], "BF16").flat()[0]))

    def test_shapes_nest(self) -> None:
        self.assertEqual(Tensor.of(5).shape, ())
        self.assertEqual(Tensor.of(5).tolist(), 5)
        self.assertEqual(Tensor.of(list(range(6)), "INT8", (1, 3, 2)).tolist(),
                         [[[0, 1], [2, 3], [4, 5]]])
        self.assertEqual(Tensor.of([], "FP32", (0, 4)).tolist(), [])

    def test_wrong_values_raise(self) -> None:
        for values, datatype in (([256], "UINT8"), ([-1], "UINT64"), ([1.5], "INT32"),
                                 ([True], "INT32"), ([1], "BOOL"), ([1e39], "FP32"),
                                 ([1e5], "FP16"), ([None], "FP32"), ([1], "FP8"), ([1], "BYTES"),
                                 ([1, [2]], None), ([[1], [2, 3]], None), ([1, "x"], None)):
            with self.subTest(values=values, datatype=datatype), self.assertRaises(TensorError):
                Tensor.of(values, datatype)

    def test_results_become_tensors(self) -> None:
        for value, datatype, shape in (
                ([[1, 2]], "INT64", (1, 2)), ([0.5], "FP64", (1,)), (["a"], "BYTES", (1,)),
                (array.array("f", [1, 2]), "FP32", (2,)), (True, "BOOL", ()),
                (memoryview(bytes(8)).cast("H", (2, 2)), "UINT16", (2, 2))):
            tensor = as_tensor(value)
            self.assertEqual((tensor.datatype, tensor.shape), (datatype, shape))
        with self.assertRaises(TensorError):
            as_tensor(object())

    def test_outputs_get_names(self) -> None:
        model = Model(lambda a, b: (b, a), ["a", "b"], ["first", "second"])
        outputs = model.run({"b": Tensor.of([2]), "a": Tensor.of([1])})
        self.assertEqual({n: t.tolist() for n, t in outputs.items()}, {"first": [2], "second": [1]})
        with self.assertRaises(TensorError):
            Model(lambda t: (1, 2), None, ["one"]).run({})

    def test_wrong_options_raise(self) -> None:
        for options in ({"name": "a/b"}, {"name": ""}, {"max_batch": -1}, {"target": 0},
                        {"inputs": {"x": ("FP8", [1])}}, {"as_dict": False}):
            with self.subTest(options=options), self.assertRaises(ValueError):
                Options(**options)  # type: ignore[arg-type]


class Codec(unittest.TestCase):
    def test_binary_follows_json(self) -> None:
        words = struct.pack("<I2sI", 2, b"ab", 0)
        head = json.dumps({"id": "7", "parameters": {"binary_data_output": True}, "inputs": [
            {"name": "s", "datatype": "BYTES", "shape": [2], "parameters":
             {"binary_data_size": len(words)}},
            {"name": "n", "datatype": "FP16", "shape": [1], "parameters":
             {"binary_data_size": 2}}]}).encode()
        request = decode(head + words + struct.pack("<e", 0.5), len(head))
        self.assertEqual(request.inputs["s"].flat(), [b"ab", b""])
        self.assertEqual(request.inputs["n"].flat(), [0.5])
        body, length = encode("m", request, request.inputs)
        assert length is not None
        self.assertEqual(body[length:], words + struct.pack("<e", 0.5))
        self.assertEqual(json.loads(body[:length])["id"], "7")

    def test_wanted_outputs_choose_form(self) -> None:
        request = decode(text(outputs=[{"name": "b", "parameters": {"binary_data": True}},
                                       {"name": "a"}]))
        body, length = encode("m", request, {"a": Tensor.of([1]), "b": Tensor.of([2], "UINT8"),
                                             "c": Tensor.of([3])})
        assert length is not None
        outputs = json.loads(body[:length])["outputs"]
        self.assertEqual([o["name"] for o in outputs], ["b", "a"])
        self.assertEqual((outputs[1]["data"], body[length:]), ([1], b"\2"))
        with self.assertRaisesRegex(CodecError, "no output 'b'"):
            encode("m", request, {"a": Tensor.of([1])})

    def test_json_refuses_nan(self) -> None:
        with self.assertRaisesRegex(TensorError, "binary_data"):
            encode("m", decode(text()), {"y": Tensor.of([math.nan])})

    def test_malformed_requests_name_fault(self) -> None:
        binary = {"name": "x", "datatype": "FP32", "shape": [1],
                  "parameters": {"binary_data_size": 4}}
        for body, fault in (
                (b"", "not JSON"), (b"{", "not JSON"), (b"\xff", "not JSON"), (b"[]", "object"),
                (b"[" * 100000, "nested|JSON"), (b'{"inputs":[NaN]}', "not JSON"),
                (b"{}", "inputs must be a list"), (text(inputs=[]), "not be empty"),
                (text(inputs={}), "inputs must be a list"), (text(inputs=[5]), r"inputs\[0\]"),
                (text(inputs=[X, X]), "second input 'x'"), (text(inputs=[X] * 65), "at most 64"),
                (text(id=5), "id must be"), (text(parameters=[]), "parameters must be"),
                (text(parameters={"binary_data_output": 1}), "binary_data_output"),
                (text(outputs=5), "outputs must be"), (text(outputs=[{}]), "name must be"),
                (one(name=""), "name must be"), (one(name="x" * 257), "name must be"),
                (one(datatype="FP8"), "datatype must be"), (one(datatype=[]), "datatype must be"),
                (one(shape=5), "shape must be"), (one(shape=[-1]), "shape must be"),
                (one(shape=[True]), "shape must be"), (one(shape=[1] * 17), "shape must be"),
                (one(shape=[2**40, 2**40]), "shape must be"), (one(shape=[3]), "needs 3 values"),
                (one(data=None), "data must be"), (one(data="ab"), "data must be"),
                (one(data=[1, "x"]), "must not be of type str"), (one(data=[[1], 2]), "mixed"),
                (one(data=[1e39, 1]), "out of the range"), (one(parameters=5), "parameters must"),
                (one(parameters={"binary_data_size": 4}), "exclude each other"),
                (text(inputs=[binary]), "binary_data_size must be at most 0")):
            with self.subTest(body=body[:80]), self.assertRaisesRegex(CodecError, fault):
                decode(body)

    def test_malformed_binary_names_fault(self) -> None:
        def case(size: Any, blob: bytes, datatype: str = "FP32", shape: Any = (1,)) -> Any:
            head = json.dumps({"inputs": [{"name": "x", "datatype": datatype, "shape": shape,
                                           "parameters": {"binary_data_size": size}}]}).encode()
            return head + blob, len(head)
        for (body, length), fault in (
                (case(4, b"abc"), "at most 3"), (case(3, b"abc"), "needs 4 bytes"),
                (case(4, b"abcde"), "1 bytes follow"), (case(-1, b""), "binary_data_size"),
                (case("4", b"abcd"), "binary_data_size"), (case(1, b"\2", "BOOL"), "0 or 1"),
                (case(3, b"\0\0\0", "BYTES"), "cut off"),
                (case(4, b"\1\0\0\0", "BYTES"), "cut off"),
                (case(8, bytes(8), "BYTES"), "needs 1 elements"),
                ((text(), 10**9), "Inference-Header-Content-Length")):
            with self.subTest(body=body), self.assertRaisesRegex(CodecError, fault):
                decode(body, length)

    def test_random_bytes_never_crash(self) -> None:
        seed = int(os.environ.get("GPUMUX_SEED", "1"))
        rng = random.Random(seed)
        body = text(id="a", outputs=[{"name": "y"}], inputs=[
            {"name": "x", "datatype": "BYTES", "shape": [1],
             "parameters": {"binary_data_size": 5}}, {**X, "name": "y"}]) + b"\1\0\0\0a"
        head = b"POST /v2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\n"
        accepted = 0
        for i in range(4000):
            mutant, start = bytearray(body), bytearray(head)
            for what in (mutant, start):
                for _ in range(rng.randrange(4)):
                    at = rng.randrange(len(what))
                    what[at:at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
            with self.subTest(seed=seed, i=i):
                try:
                    request = decode(bytes(mutant), len(mutant) - 5 + rng.choice((0, 0, 0, 1)))
                    encode("m", request, {"y": next(iter(request.inputs.values()))})
                    accepted += 1
                except (CodecError, TensorError):
                    pass
                try:
                    parse_head(bytes(start) + b"\r\n\r\n")
                except HttpError as e:
                    self.assertIn(e.status, (400, 431, 501, 505))
        self.assertGreater(accepted, 100)


class Heads(unittest.TestCase):
    def test_head_is_parsed(self) -> None:
        head = parse_head(b"POST /a?b HTTP/1.1\r\nCONTENT-LENGTH: 5\r\nA: 1\r\na:2 \r\n\r\n")
        self.assertEqual((head.method, head.path, head.body_length, head.keep_alive),
                         ("POST", "/a", 5, True))
        self.assertEqual(head.headers["a"], "1, 2")
        self.assertFalse(parse_head(b"GET / HTTP/1.0\r\n\r\n").keep_alive)
        self.assertFalse(parse_head(b"GET / HTTP/1.1\r\nConnection: Close\r\n\r\n").keep_alive)
        chunked = parse_head(b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.assertEqual(chunked.body_length, -1)

    def test_malformed_heads_are_refused(self) -> None:
        for lines, status in (
                (b"", 400), (b"GET", 400), (b"GET / HTTP/1.1 x", 400), (b"GET a HTTP/1.1", 400),
                (b"G(T / HTTP/1.1", 400), (b"GET / HTTP/2", 505),
                (b"GET / HTTP/1.1\r\nnone", 400), (b"GET / HTTP/1.1\r\n a: folded", 400),
                (b"GET / HTTP/1.1\r\na : 1", 400), (b"GET / HTTP/1.1\r\na: x\ny", 400),
                (b"GET / HTTP/1.1\r\nContent-Length: -1", 400),
                (b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1", 400),
                (b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked", 400),
                (b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip", 501),
                (b"GET / HTTP/1.1" + b"\r\na: b" * 101, 431)):
            with self.subTest(lines=lines[:60]), self.assertRaises(HttpError) as caught:
                parse_head(lines + b"\r\n\r\n")
            self.assertEqual(caught.exception.status, status)


if __name__ == "__main__":
    unittest.main()
