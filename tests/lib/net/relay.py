#!/usr/bin/env python3
"""relay.py TEST [ARG]...: what goes over a connection arrives as it was sent, with its ends. To web.test, where serve.py's streams
are; with VIA=socks in the environment by the proxy port."""
import asyncio
import hashlib
import os
import resource
import socket
import struct
import sys
import time

HOST = "web.test"


def connect(port, name=HOST, timeout=15):
    if os.environ.get("VIA") != "socks":
        return socket.create_connection((name, port), timeout)
    s = socket.create_connection(("127.0.0.1", 18255), timeout)
    s.sendall(b"\5\1\0\5\1\0\3" + bytes([len(name)]) + name.encode() + struct.pack(">H", port))
    answer = b""
    while len(answer) < 12:
        answer += s.recv(12 - len(answer)) or sys.exit("closed")
    if answer[3]:
        raise OSError(0, f"reply {answer[3]}")
    return s


def everything(s):
    data = b""
    while more := s.recv(1 << 16):
        data += more
    return data


def reset_on_close(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def client_ends_first(size):
    data = os.urandom(int(size))
    s = connect(7002)
    s.sendall(data)
    s.shutdown(socket.SHUT_WR)
    print("ok" if everything(s).decode().strip() == hashlib.sha256(data).hexdigest() else "differs")


def server_ends_first(seed):
    """Prints what it says; then sends what the test knows the digest of."""
    s = connect(7003)
    print(everything(s).decode().strip())
    time.sleep(0.3)
    for _ in range(16):
        s.sendall(seed.encode() * 4096)
        time.sleep(0.02)


def server_resets():
    s = connect(7004)
    s.sendall(b"x")
    try:
        print("ended" if not s.recv(1) else "more")
    except ConnectionResetError:
        print("reset")


def client_ends(name, how):
    s = connect(7005)
    s.sendall(name.encode() + b"\n")
    s.recv(3)
    if how == "reset":
        reset_on_close(s)
    s.close()
    time.sleep(0.5)  # the gateway is there to tell


def silence(seconds):
    s = connect(7001)
    s.sendall(b"before")
    s.recv(6)
    time.sleep(float(seconds))
    s.sendall(b"after")
    print(s.recv(5).decode() or "cut")


def slow_reader(n, seconds):
    """Reads nothing of what comes without an end."""
    many = [connect(7006) for _ in range(int(n))]
    print("open", flush=True)
    time.sleep(float(seconds))
    print(len([s for s in many if len(s.recv(1 << 20)) > 0]))
    print("hello" in everything_of("http://web.test:8080/"))


def everything_of(url):
    import urllib.request
    return urllib.request.urlopen(url, timeout=10).read().decode()


def slow_server(size):
    """Sends more than all buffers take to who does not read yet; prints how long it had to wait."""
    s = connect(7007, timeout=20)
    s.recv(6)
    begin = time.monotonic()
    s.sendall(bytes(int(size)))
    print("waited" if time.monotonic() - begin > 2 else "did not wait")
    s.shutdown(socket.SHUT_WR)
    everything(s)


async def one_digest(i):
    data = hashlib.sha256(b"%d" % i).digest() * (500 + i * 37 % 6000)
    reader, writer = await asyncio.open_connection(HOST, 7002)
    writer.write(data)
    await writer.drain()
    writer.write_eof()
    got = await reader.read()
    writer.close()
    return got.decode().strip() == hashlib.sha256(data).hexdigest()


def digests(n):
    async def run():
        return await asyncio.gather(*[one_digest(i) for i in range(int(n))], return_exceptions=True)
    results = asyncio.run(run())
    print(sum(r is True for r in results), *{repr(r) for r in results if r is not True})


def half_open(n, port):
    """Opens them and says nothing; one more that does speak is served."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    many, failed = [], 0
    for _ in range(int(n)):
        try:
            many.append(socket.create_connection((HOST, int(port)), 10))
        except OSError:
            failed += 1
    print(len(many), failed)
    begin = time.monotonic()
    print("hello" in everything_of("http://web.test:8080/"))
    print("soon" if time.monotonic() - begin < 3 else "late")


def connections(n):
    """So many that stay, one after the other, and how each ends; then one after they are closed."""
    many = []
    for _ in range(int(n)):
        try:
            s = connect(7001)
            s.sendall(b"ping")
            many.append(s)
            print(s.recv(4).decode() or "closed")
        except OSError as e:
            print(e.strerror)
    for s in many:
        s.close()
    time.sleep(0.5)
    s = connect(7001)
    s.sendall(b"ping")
    print("then", s.recv(4).decode())


def reach(name, port):
    """Prints what became of it, and whether that took longer than three seconds."""
    begin = time.monotonic()
    try:
        s = connect(int(port), name)
        s.sendall(b"ping")
        result = s.recv(4).decode() or "closed"
    except OSError as e:
        result = e.strerror
    print(result, "late" if time.monotonic() - begin > 3 else "soon")


globals()[sys.argv[1]](*sys.argv[2:])
