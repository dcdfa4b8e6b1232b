"""The HTTP server: connections, routes, and the end."""

import asyncio
import signal
import sys
import threading
import time
from typing import Any, Callable, Optional, Set

import gpumux

from . import http1
from .http1 import Answer, Head, HttpError, error_answer, json_answer
from .options import Options
from .service import Service

CONNECTIONS_MAX = 1024
IDLE_S = 75.0  # without a head of a request
BODY_S = 30.0  # for a whole body
LINGER_S = 2.0  # between two pieces of a request that was refused
LINGER_MAX = 64 << 20  # bytes of such a request
_STREAM = {"Cache-Control": "no-store"}


class Server:
    """A server for one model.

    :meth:`run` serves until SIGTERM or SIGINT. :meth:`start` serves on a thread instead, until
    :meth:`stop`. Both end by draining: requests that the server has are finished, new requests get
    status 503.
    """

    def __init__(self, model: Callable[..., Any], **options: Any) -> None:
        self.options = Options(**options)
        self.service = Service(model, self.options)
        self.port = 0
        self.is_draining = False
        self._active = 0
        self._connections = 0
        self._idle: Set[asyncio.StreamWriter] = set()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._changed: asyncio.Event
        self._error: Optional[BaseException] = None
        self._thread: Optional[threading.Thread] = None

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT. Only the main thread may call this method."""
        asyncio.run(self._main(lambda: None, takes_signals=True))

    def start(self) -> None:
        """Serve on a thread, and return when the server listens on :attr:`port`."""
        listening = threading.Event()

        def serve() -> None:
            try:
                asyncio.run(self._main(listening.set, takes_signals=False))
            except BaseException as e:
                self._error = e
                listening.set()
        self._thread = threading.Thread(target=serve, name="gpumux-serve", daemon=True)
        self._thread.start()
        listening.wait()
        if self._error is not None:
            raise self._error

    def drain(self) -> None:
        """Refuse new requests, and end when the others are answered. Any thread may call."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._drain)

    def stop(self) -> None:
        """Drain a server that was started, and wait until the server has ended."""
        try:
            self.drain()
        except RuntimeError:
            pass  # the loop has ended already
        if self._thread is not None:
            self._thread.join()

    def _drain(self) -> None:
        self.is_draining = True
        self._changed.set()

    async def _main(self, on_listening: Callable[[], None], takes_signals: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        options = self.options
        try:
            listener = await asyncio.start_server(
                self._connection, options.host, options.port_number(), limit=http1.HEAD_MAX,
                backlog=CONNECTIONS_MAX)
            self.port = listener.sockets[0].getsockname()[1]
            if takes_signals:
                for number in (signal.SIGTERM, signal.SIGINT):
                    self._loop.add_signal_handler(number, self._drain)
            print(f"gpumux.serve: listening host={options.host} port={self.port} "
                  f"model={options.name}", file=sys.stderr, flush=True)
            gpumux.ready()
            on_listening()
            deadline: Optional[float] = None
            while not self.is_draining or self._active > 0:
                if self.is_draining and deadline is None:
                    deadline = time.monotonic() + options.grace
                patience = None if deadline is None else deadline - time.monotonic()
                try:
                    await asyncio.wait_for(self._changed.wait(), patience)
                except asyncio.TimeoutError:
                    print(f"gpumux.serve: requests abandoned count={self._active} "
                          f"grace={options.grace}", file=sys.stderr, flush=True)
                    return
                self._changed.clear()
            listener.close()
            for writer in list(self._idle):
                writer.close()
        finally:
            if self._active == 0:
                self.service.batcher.close()

    async def _connection(self, reader: asyncio.StreamReader,
                          writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections > CONNECTIONS_MAX:
                raise HttpError(503, f"more than {CONNECTIONS_MAX} connections are open",
                                {"Retry-After": "1"})
            while await self._exchange(reader, writer):
                pass
        except HttpError as e:
            await self._refuse(reader, writer, e)
        except (OSError, asyncio.TimeoutError, asyncio.CancelledError):
            pass  # the peer has gone or is silent, or the server ends
        finally:
            self._connections -= 1
            writer.close()

    async def _refuse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
                      error: HttpError) -> None:
        """Send an error before the end of the request was read. The peer may still be sending: a
        close would discard the answer, so that the rest is read up to a bound."""
        try:
            writer.write(error_answer(error.status, str(error), error.headers).text(False))
            writer.write_eof()
            rest = LINGER_MAX
            while rest > 0:
                piece = await asyncio.wait_for(reader.read(65536), LINGER_S)
                if not piece:
                    return
                rest -= len(piece)
        except (OSError, asyncio.TimeoutError, asyncio.CancelledError):
            pass

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request, and return whether the connection stays open. Raises HttpError if
        the rest of the connection cannot be read."""
        self._idle.add(writer)
        try:
            text = await asyncio.wait_for(http1.read_head(reader), IDLE_S)
        finally:
            self._idle.discard(writer)
        if text is None:
            return False
        arrival = time.monotonic()
        head = http1.parse_head(text)
        self._active += 1
        try:
            if head.method == "POST" and head.path in self._model_paths():
                return await self._model_request(head, reader, writer, arrival)
            await self._body(head, reader, writer, self.options.max_body)
            return await self._send(writer, self._route(head), head)
        finally:
            self._active -= 1
            self._changed.set()

    async def _body(self, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
                    most: int) -> bytes:
        if head.body_length <= most and head.headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            return await asyncio.wait_for(http1.read_body(reader, head, most), BODY_S)
        except asyncio.TimeoutError:
            raise HttpError(408, f"the body did not arrive within {BODY_S} s") from None

    async def _send(self, writer: asyncio.StreamWriter, answer: Answer, head: Head) -> bool:
        keep_alive = head.keep_alive and not self.is_draining
        writer.write(answer.text(keep_alive))
        await writer.drain()
        return keep_alive

    def _model_paths(self) -> Any:
        path = f"/v2/models/{self.options.name}"
        return path + "/infer", path + "/generate_stream"

    def _route(self, head: Head) -> Answer:
        """Answer a request that does not reach the model."""
        path = f"/v2/models/{self.options.name}"
        is_ready = not self.is_draining
        answers = {
            "/v2": lambda: json_answer({"name": "gpumux", "version": "0.1.0",
                                        "extensions": ["binary_tensor_data"]}),
            "/v2/health/live": lambda: json_answer({"live": True}),
            "/v2/health/ready": lambda: json_answer({"ready": is_ready}, 200 if is_ready else 503),
            path: lambda: json_answer(self.options.metadata()),
            path + "/ready": lambda: json_answer({"name": self.options.name, "ready": is_ready},
                                                 200 if is_ready else 503),
            "/metrics": self.service.page,
        }
        answer = answers.get(head.path)
        if answer is None and head.path not in self._model_paths():
            return error_answer(404, f"nothing is served at {head.path}")
        if answer is None or head.method != "GET":
            allowed = "POST" if answer is None else "GET"
            return error_answer(405, f"use {allowed} for {head.path}", {"Allow": allowed})
        return answer()

    async def _model_request(self, head: Head, reader: asyncio.StreamReader,
                             writer: asyncio.StreamWriter, arrival: float) -> bool:
        """Answer a request to the model, and report the request to gpumux."""
        metrics = self.service.metrics
        metrics.request()
        report = gpumux.request(age=time.monotonic() - arrival).begin()
        is_whole = False
        try:
            body = await self._body(head, reader, writer, self.options.max_body)
            is_whole = True
            if self.is_draining:
                raise HttpError(503, "the server is ending", {"Retry-After": "1"})
            json_length = head.number("inference-header-content-length")
            if head.path.endswith("/infer"):
                answer = await self.service.infer(body, json_length, arrival)
                keep_alive = await self._send(writer, answer, head)
            else:
                keep_alive = await self._stream(head, body, json_length, writer)
            report.end()
            metrics.answered(time.monotonic() - arrival)
            return keep_alive
        except HttpError as e:
            metrics.failure(e.status)
            if not is_whole:
                raise
            return await self._send(writer, error_answer(e.status, str(e), e.headers), head)
        finally:
            report.drop()

    async def _stream(self, head: Head, body: bytes, json_length: Optional[int],
                      writer: asyncio.StreamWriter) -> bool:
        """Send the events of a stream, in chunks if the peer reads chunks. A failure after the
        first event ends the stream with the event `error`, and the connection."""
        events = self.service.stream(body, json_length)
        is_chunked = head.reads_chunks
        keep_alive = head.keep_alive and is_chunked and not self.is_draining
        framing = "Transfer-Encoding: chunked\r\n" if is_chunked else ""
        start = http1.head_text(200, "text/event-stream", _STREAM, keep_alive, framing)
        try:
            async for event in events:
                writer.write(start + (_chunk(event) if is_chunked else event))
                start = b""
                await writer.drain()
        except HttpError as e:
            if start:
                raise
            self.service.metrics.failure(e.status)
            event = b"event: error\ndata: " + error_answer(e.status, str(e)).body + b"\n\n"
            writer.write(_chunk(event) + _chunk(b"") if is_chunked else event)
            raise ConnectionAbortedError from None
        finally:
            await events.aclose()
        writer.write(start + (_chunk(b"") if is_chunked else b""))
        await writer.drain()
        return keep_alive


def _chunk(data: bytes) -> bytes:
    """Return a chunk; an empty chunk ends the body."""
    return b"%x\r\n%b\r\n" % (len(data), data)
