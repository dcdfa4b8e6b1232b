"""The model behind the routes: checks, queue, streams and counts."""

import asyncio
import inspect
import sys
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, AsyncGenerator, Callable, Dict, Optional, Tuple

import gpumux

from .batcher import Batcher, Full
from .codec import CodecError, InferRequest, decode, encode
from .convert import Model, loaded_torch
from .http1 import Answer, HttpError
from .metrics import CONTENT_TYPE, Metrics
from .options import Options
from .tensor import Tensor

Tensors = Dict[str, Tensor]

_INLINE_MAX = 65536  # bytes that are parsed on the loop; larger requests would delay the others
_END = object()


class Service:
    """A model with its queue and its counts. The methods run on the loop of the server."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        self.options = options
        self.metrics = Metrics(options.name, options.target)
        self.is_stream = inspect.isgeneratorfunction(function)
        arguments = None if options.as_dict else list(options.inputs)
        self._model = Model(function, arguments, list(options.outputs), loaded_torch(),
                            options.device)
        self._streams = 0
        self.batcher = Batcher(self._run, self.batch_limit, options.target, options.max_queue,
                               splits=options.max_batch > 0, on_batch=self._on_batch)

    def batch_limit(self) -> int:
        """Return the batch limit in force: gpumux's advice, within `max_batch`."""
        most = max(1, self.options.max_batch)
        return max(1, min(gpumux.batch_size(most), most))

    async def infer(self, body: bytes, json_length: Optional[int], arrival: float) -> Answer:
        """Answer a request to infer. Raises HttpError."""
        if self.is_stream:
            raise HttpError(400, "this model streams: use generate_stream")
        request = await self._decode(body, json_length)
        rows = self._rows(request)
        try:
            future = self.batcher.submit(request.inputs, rows, arrival)
        except Full as e:
            raise HttpError(503, str(e), {"Retry-After": str(e.retry_s)}) from None
        outputs = await self._result(future)
        size = sum(len(tensor.data) for tensor in outputs.values())
        text, length = await self._encode(request, outputs, size)
        if length is None:
            return Answer(200, text)
        return Answer(200, text, "application/octet-stream",
                      {"Inference-Header-Content-Length": str(length)})

    async def stream(self, body: bytes, json_length: Optional[int]) -> AsyncGenerator[bytes, None]:
        """Yield the server-sent events of a request. Raises HttpError, also
        between two events."""
        request = await self._decode(body, json_length)
        if request.is_binary or any(request.outputs.values()):
            raise HttpError(400, "a stream answers in JSON: do not ask for binary outputs")
        self._rows(request)
        if self._streams >= self.options.max_streams:
            raise HttpError(503, f"{self._streams} streams are open, of at most "
                            f"{self.options.max_streams}", {"Retry-After": "1"})
        self._streams += 1
        # All steps of a generator run on one thread: PyTorch's modes belong to a thread.
        thread = ThreadPoolExecutor(1, "gpumux-stream")
        loop = asyncio.get_running_loop()
        steps = self._steps(request)
        try:
            while True:
                outputs = await self._guard(loop.run_in_executor(thread, next, steps, _END))
                if outputs is _END:
                    return
                text, _ = await self._encode(request, outputs, 0)
                yield b"data: " + text + b"\n\n"
        finally:
            self._streams -= 1
            thread.submit(steps.close)
            thread.shutdown(wait=False)

    def page(self) -> Answer:
        """Return the page of metrics."""
        rows, most = self.batcher.waiting()
        text = self.metrics.text({
            "queue_rows": ("Rows that wait for the model.", rows),
            "queue_rows_max": ("Rows that may wait; further requests get status 503.", most),
            "batch_limit_rows": ("Largest batch at present.", self.batch_limit()),
            "streams": ("Open streams.", self._streams),
        })
        return Answer(200, text.encode(), CONTENT_TYPE)

    def _run(self, inputs: Tensors) -> Tensors:
        return self._model.run(inputs)

    def _on_batch(self, rows: int, limit: int, _seconds: float) -> None:
        self.metrics.batch(rows)
        gpumux.use_batch(limit)

    def _steps(self, request: InferRequest) -> Any:
        """Yield the results of the model: those of its generator, or its only result."""
        value = self._model.call(request.inputs)
        if not inspect.isgenerator(value):
            yield self._model.results(value)
            return
        try:
            for result in value:
                yield self._model.results(result)
        finally:
            value.close()

    async def _decode(self, body: bytes, json_length: Optional[int]) -> InferRequest:
        try:
            if len(body) <= _INLINE_MAX:
                return decode(body, json_length)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(None, decode, body, json_length)
        except CodecError as e:
            raise HttpError(400, str(e)) from None

    async def _encode(self, request: InferRequest, outputs: Tensors,
                      size: int) -> Tuple[bytes, Optional[int]]:
        name = self.options.name
        try:
            if size <= _INLINE_MAX:
                return encode(name, request, outputs)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(None, encode, name, request, outputs)
        except CodecError as e:
            raise HttpError(400, str(e)) from None
        except ValueError as e:
            raise HttpError(500, str(e)) from None

    async def _result(self, future: "Future[Tensors]") -> Tensors:
        outputs: Tensors = await self._guard(asyncio.wrap_future(future))
        return outputs

    async def _guard(self, result: Any) -> Any:
        """Await a result of the model, and answer its exceptions with status 500."""
        try:
            return await result
        except Exception as e:
            traceback.print_exception(type(e), e, e.__traceback__, file=sys.stderr)
            raise HttpError(500, f"the model failed: {type(e).__name__}: {e}") from None

    def _rows(self, request: InferRequest) -> int:
        """Check the inputs against the declaration, and return the size of axis 0."""
        declared = self.options.inputs
        if declared and set(declared) != set(request.inputs):
            raise HttpError(400, f"the inputs must be {', '.join(declared)}, and are "
                            f"{', '.join(request.inputs)}")
        for name, (datatype, shape) in declared.items():
            tensor = request.inputs[name]
            fits = len(shape) == len(tensor.shape) and all(
                want in (-1, size) for want, size in zip(shape, tensor.shape))
            if tensor.datatype != datatype or not fits:
                raise HttpError(400, f"the input {name} must be {datatype} {list(shape)}, and is "
                                f"{tensor.datatype} {list(tensor.shape)}")
        if self.options.max_batch == 0:
            return 1
        sizes = {tensor.shape[0] if tensor.shape else 0 for tensor in request.inputs.values()}
        if len(sizes) != 1 or 0 in sizes:
            raise HttpError(400, "axis 0 of all inputs must have the same size, of at least 1")
        rows = sizes.pop()
        if rows > self.options.max_batch:
            raise HttpError(400, f"the request has {rows} rows, more than {self.options.max_batch}")
        return rows
