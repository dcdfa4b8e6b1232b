"""HTTP/1.1 on asyncio streams: the head and the body of a request, and the text of an answer."""

import asyncio
import json
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Dict, Optional

HEAD_MAX = 16384
HEADERS_MAX = 100
_CHUNK_LINE_MAX = 256
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_NUMBER = re.compile(r"[0-9]{1,15}\Z")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,12})[ \t]*(;[^\r\n]*)?\r\n\Z")


class HttpError(Exception):
    """A request that gets an answer of this status and no other treatment."""

    def __init__(self, status: int, message: str, headers: Optional[Dict[str, str]] = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


@dataclass(frozen=True)
class Head:
    """The head of a request. Names of headers are in lower case."""

    method: str
    path: str
    headers: Dict[str, str]
    keep_alive: bool
    body_length: int  # -1: in chunks
    reads_chunks: bool  # the peer speaks HTTP/1.1

    def number(self, name: str) -> Optional[int]:
        """Return the value of a header that is a number. None: the header is missing."""
        text = self.headers.get(name)
        if text is None:
            return None
        if not _NUMBER.match(text):
            raise HttpError(400, f"header {name} must be a number")
        return int(text)


@dataclass(frozen=True)
class Answer:
    """An answer with a body."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Dict[str, str] = field(default_factory=dict)

    def text(self, keep_alive: bool) -> bytes:
        """Return head and body as sent."""
        length = f"Content-Length: {len(self.body)}\r\n"
        head = head_text(self.status, self.content_type, self.headers, keep_alive, length)
        return head + self.body


def head_text(status: int, content_type: str, headers: Dict[str, str], keep_alive: bool,
              framing: str) -> bytes:
    """Return the head of an answer; `framing` is the header that delimits the body."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    closing = "" if keep_alive else "Connection: close\r\n"
    return (f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {content_type}\r\n"
            f"{framing}{closing}{lines}\r\n").encode("latin-1")


def json_answer(value: Any, status: int = 200, headers: Optional[Dict[str, str]] = None) -> Answer:
    """Return an answer with a JSON value."""
    return Answer(status, json.dumps(value).encode(), headers=headers or {})


def error_answer(status: int, message: str, headers: Optional[Dict[str, str]] = None) -> Answer:
    """Return an error in the form of the Open Inference Protocol."""
    return json_answer({"error": message}, status, headers)


def parse_head(text: bytes) -> Head:
    """Parse a head, with the empty line at its end."""
    lines = text.decode("latin-1").split("\r\n")[:-2]
    words = lines[0].split(" ")
    if len(words) != 3 or not _TOKEN.match(words[0]) or not words[1].startswith("/"):
        raise HttpError(400, "the request line is malformed")
    if words[2] not in ("HTTP/1.0", "HTTP/1.1"):
        raise HttpError(505, "only HTTP/1.0 and HTTP/1.1 are served")
    if len(lines) - 1 > HEADERS_MAX:
        raise HttpError(431, f"the request has more than {HEADERS_MAX} headers")
    headers: Dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t")
        if not colon or not _TOKEN.match(name) or any(c in value for c in "\0\r\n"):
            raise HttpError(400, "a header is malformed")
        if name in headers and name in ("content-length", "transfer-encoding", "host",
                                        "inference-header-content-length"):
            raise HttpError(400, f"header {name} is repeated")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    options = [option.strip().lower() for option in headers.get("connection", "").split(",")]
    keep_alive = "close" not in options if words[2] == "HTTP/1.1" else "keep-alive" in options
    path = words[1].partition("?")[0]
    return Head(words[0], path, headers, keep_alive, _body_length(headers), words[2] == "HTTP/1.1")


def _body_length(headers: Dict[str, str]) -> int:
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    if coding is not None:
        if length is not None:
            raise HttpError(400, "Content-Length and Transfer-Encoding exclude each other")
        if coding.lower() != "chunked":
            raise HttpError(501, "the only transfer coding served is chunked")
        return -1
    if length is None:
        return 0
    if not _NUMBER.match(length):
        raise HttpError(400, "Content-Length must be a number")
    return int(length)


async def read_head(reader: asyncio.StreamReader) -> Optional[bytes]:
    """Read up to the end of a head. None: the peer closed the connection between two requests."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as e:
        if not e.partial.strip():
            return None
        raise HttpError(400, "the head is cut off") from None
    except asyncio.LimitOverrunError:
        raise HttpError(431, f"the head has more than {HEAD_MAX} bytes") from None


async def read_body(reader: asyncio.StreamReader, head: Head, most: int) -> bytes:
    """Read the body of a request, of at most that many bytes."""
    if head.body_length > most:
        raise HttpError(413, f"the body has more than {most} bytes")
    try:
        if head.body_length >= 0:
            return await reader.readexactly(head.body_length)
        return await _read_chunks(reader, most)
    except asyncio.IncompleteReadError:
        raise HttpError(400, "the body is cut off") from None
    except asyncio.LimitOverrunError:
        raise HttpError(400, "a line of the chunked body is too long") from None


async def _read_chunks(reader: asyncio.StreamReader, most: int) -> bytes:
    body = bytearray()
    while True:
        line = await reader.readuntil(b"\r\n")
        match = _CHUNK.match(line)
        if match is None or len(line) > _CHUNK_LINE_MAX:
            raise HttpError(400, "the size of a chunk is malformed")
        size = int(match[1], 16)
        if size > most - len(body):
            raise HttpError(413, f"the body has more than {most} bytes")
        if size == 0:
            break
        body += await reader.readexactly(size)
        if await reader.readexactly(2) != b"\r\n":
            raise HttpError(400, "a chunk does not end where its size says")
    for _ in range(HEADERS_MAX):
        if await reader.readuntil(b"\r\n") == b"\r\n":
            return bytes(body)
    raise HttpError(400, "the chunked body has too many trailers")
