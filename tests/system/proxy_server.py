"""Servers that know nothing of gpumux, for the test of the proxy.

    proxy_server.py http    Python's own HTTP/1.1 server: GET /size/N, /chunks/N, /events/N, /slow,
                            /fail; POST answers with the number of bytes it got
    proxy_server.py h2      HTTP/2 without TLS, by prior knowledge and by upgrade: answers every
                            request after 5 ms with three DATA frames of 5 bytes
    proxy_server.py metrics a server with a vLLM histogram at /metrics, which grows with every page
"""
import http.server
import os
import socketserver
import struct
import sys
import time

PORT = int(os.environ.get("GPUMUX_PORT") or sys.argv[2])


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


class Http(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, pieces, pause_s):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for _ in range(pieces):
            time.sleep(pause_s)
            self.wfile.write(b"9\r\ndata: x\n\n\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def do_GET(self):
        _, kind, *rest = self.path.split("/")
        number = int(rest[0]) if rest else 0
        if kind == "chunks":
            self.stream(number, 0)
        elif kind == "events":
            self.stream(number, 0.03)
        elif kind == "slow":
            time.sleep(0.05)
            self.answer(b"slow\n")
        elif kind == "fail":
            self.close_connection = True
        else:
            self.answer(b"x" * number)

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        self.answer(b"%d\n" % len(self.rfile.read(length)))


class Metrics(Http):
    pages = 0

    def do_GET(self):
        Metrics.pages += 1
        count, text = 50 * Metrics.pages, ""
        for name in ("e2e_request_latency", "time_to_first_token"):
            for bound in ("0.3", "0.5", "+Inf"):
                text += 'vllm:%s_seconds_bucket{engine="0",le="%s",model_name="m"} %d.0\n' % (
                    name, bound, 0 if bound == "0.3" else count)
        self.answer(text.encode())


class H2(socketserver.BaseRequestHandler):
    def take(self, length):
        data = b""
        while len(data) < length:
            piece = self.request.recv(length - len(data))
            if not piece:
                raise ConnectionError
            data += piece
        return data

    def send_frame(self, kind, flags, stream, payload=b""):
        head = struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream)
        self.request.sendall(head + payload)

    def answer(self, stream):
        time.sleep(0.005)
        self.send_frame(1, 4, stream, b"\x88")  # HEADERS: ":status: 200"
        for last in (0, 0, 1):
            self.send_frame(0, last, stream, b"hello")

    def handle(self):
        try:
            first = self.take(24)
            if not first.startswith(b"PRI"):  # an upgrade: the request becomes stream 1
                while not first.endswith(b"\r\n\r\n"):
                    first += self.take(1)
                self.request.sendall(b"HTTP/1.1 101 Switching Protocols\r\n"
                                     b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
                self.send_frame(4, 0, 0)
                self.answer(1)
                self.take(24)
            else:
                self.send_frame(4, 0, 0)
            while True:
                head = self.take(9)
                length = int.from_bytes(head[:3], "big")
                kind, flags = head[3], head[4]
                stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
                self.take(length)
                if kind == 4 and not flags & 1:
                    self.send_frame(4, 1, 0)
                elif kind == 1 or (kind == 0 and flags & 1):
                    self.answer(stream)
        except OSError:
            pass


class H2Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 1024


if sys.argv[1] == "h2":
    H2Server(("127.0.0.1", PORT), H2).serve_forever()
Server(("127.0.0.1", PORT), Metrics if sys.argv[1] == "metrics" else Http).serve_forever()
