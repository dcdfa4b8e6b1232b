"""Clients for the test of the proxy.

    proxy_client.py many PORT COUNT    COUNT connections at the same time, two requests on each
    proxy_client.py pipeline PORT N    N requests in one packet; prints the sum of the bodies
    proxy_client.py streams PORT N     N requests on one connection of HTTP/2
    proxy_client.py until PORT FILE    requests, kept alive and not, until FILE exists; makes
                                       FILE.begun after ten. A failed request ends the program
"""
import http.client
import os
import socket
import sys

port = int(sys.argv[2])


def read_until(file, mark):
    line = file.readline()
    while line not in (mark, b""):
        line = file.readline()


def many(count):
    sockets = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(count)]
    for _ in range(2):
        for s in sockets:
            s.sendall(b"GET /size/5 HTTP/1.1\r\nHost: a\r\n\r\n")
        for s in sockets:
            data = b""
            while not data.endswith(b"xxxxx"):
                piece = s.recv(4096)
                assert piece, data
                data += piece
            assert data.startswith(b"HTTP/1.1 200"), data


def pipeline(count):
    s = socket.create_connection(("127.0.0.1", port), 60)
    s.sendall(b"".join(b"GET /size/%d HTTP/1.1\r\nHost: a\r\n\r\n" % i for i in range(count)))
    s.shutdown(socket.SHUT_WR)
    total, file = 0, s.makefile("rb")
    for i in range(count):
        assert file.readline().startswith(b"HTTP/1.1 200")
        read_until(file, b"\r\n")
        total += len(file.read(i))
    assert file.read() == b""
    print(total)


def until(path):
    kept, requests = http.client.HTTPConnection("127.0.0.1", port, timeout=60), 0
    while not os.path.exists(path):
        new = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for connection in (kept, new):
            connection.request("GET", "/size/7")
            answer = connection.getresponse()
            assert answer.status == 200 and answer.read() == b"xxxxxxx"
            requests += 1
        new.close()
        if requests == 10:
            open(path + ".begun", "w").close()


def streams(count):
    s = socket.create_connection(("127.0.0.1", port), 60)
    request = b"\x82\x84\x86\x01\x01a"  # GET / http, authority "a"
    s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
    for i in range(count):
        s.sendall(bytes((0, 0, len(request), 1, 5, 0, 0, 0, 2 * i + 1)) + request)
    file, bodies = s.makefile("rb"), {}
    while sum(body.endswith(b".") for body in bodies.values()) < count:
        head = file.read(9)
        body = file.read(int.from_bytes(head[:3], "big"))
        if head[3] == 0:
            bodies[head[8]] = bodies.get(head[8], b"") + body + b"." * (head[4] & 1)
    assert set(bodies.values()) == {b"hellohellohello."} and len(bodies) == count, bodies


if sys.argv[1] == "many":
    many(int(sys.argv[3]))
elif sys.argv[1] == "pipeline":
    pipeline(int(sys.argv[3]))
elif sys.argv[1] == "streams":
    streams(int(sys.argv[3]))
else:
    until(sys.argv[3])
