#!/usr/bin/env python3
"""serve.py DIR: the servers of the egress tests, in a network namespace of their own. DIR has the certificates; written there:
`up` when all listen, dns.log (a name that was asked a line), http.log (METHOD HOST PATH), ends.log (how connections ended)."""
import asyncio
import hashlib
import http.server
import ipaddress
import os
import resource
import socket
import ssl
import struct
import sys
import threading

DIR = sys.argv[1]
LONG = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 56, "test"])  # 253 bytes
ZONE = {
    "web.test": ["203.0.113.10", "2001:db8::10"],
    "www.web.test": ["203.0.113.10"],
    "four.test": ["203.0.113.10"],
    "six.test": ["2001:db8::10"],
    "denied.test": ["203.0.113.20"],
    "alias.test": "target.test",
    "target.test": ["203.0.113.30"],
    "h2.test": ["203.0.113.40"],
    "loopback.test": ["127.0.0.1"],
    "loopback6.test": ["::1"],
    "zero.test": ["0.0.0.0"],
    "private.test": ["10.1.2.3"],
    "lan.test": ["192.168.1.1"],
    "nat.test": ["100.64.1.1"],
    "metadata.test": ["169.254.169.254"],
    "ula.test": ["fd00:1::1"],
    "mapped.test": ["::ffff:127.0.0.1"],
    "nat64.test": ["64:ff9b::7f00:1"],
    "own.test": ["198.51.100.7"],
    "mixed.test": ["10.1.2.3", "203.0.113.10"],
    "cname-in.test": "private.test",
    "silent.test": ["192.0.2.99"],
    "refused.test": ["203.0.113.50"],
    "two.test": ["203.0.113.50", "203.0.113.10"],
    "xn--bcher-kva.test": ["203.0.113.10"],
    LONG: ["203.0.113.10"],
}
UNANSWERED = "unanswered.test"
WEB = ["203.0.113.10", "203.0.113.20", "203.0.113.30", "127.0.0.1", "::1", "10.1.2.3", "192.168.1.1", "100.64.1.1",
       "169.254.169.254", "198.51.100.7", "fd00:1::1", "2001:db8::10"]


def note(name, text):
    with open(os.path.join(DIR, name), "a") as f:
        f.write(text + "\n")


def listener(address, port, kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if s.family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.setsockopt(socket.IPPROTO_IPV6, 78, 1)  # IPV6_FREEBIND
    try:
        s.bind((address, port))
        if kind == socket.SOCK_STREAM:
            s.listen(4096)
    except OSError as e:
        if s.family != socket.AF_INET6:
            raise
        print("no", address, e)
        return None
    return s


# --- names ---

def qname(msg):
    labels, at = [], 12
    while msg[at]:
        labels.append(msg[at + 1:at + 1 + msg[at]].decode("latin-1"))
        at += 1 + msg[at]
    return ".".join(labels), at + 1


def pack_name(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


def record(name, kind, data):
    return pack_name(name) + struct.pack(">HHIH", kind, 1, 0, len(data)) + data


def dns_answer(msg):
    name, end = qname(msg)
    kind = struct.unpack(">H", msg[end:end + 2])[0]
    note("dns.log", name)
    name = name.lower()
    if name == UNANSWERED:
        return None
    answers, known = [], name in ZONE
    while known and isinstance(ZONE[name], str):
        answers.append(record(name, 5, pack_name(ZONE[name])))
        name = ZONE[name]
    for text in ZONE.get(name, []):
        address = ipaddress.ip_address(text)
        if kind == (1 if address.version == 4 else 28):
            answers.append(record(name, kind, address.packed))
    head = struct.pack(">HHHHHH", struct.unpack(">H", msg[:2])[0], 0x8180 if known else 0x8183, 1, len(answers), 0, 0)
    return head + msg[12:end + 4] + b"".join(answers)


def serve_dns(s):
    while True:
        msg, peer = s.recvfrom(4096)
        try:
            out = dns_answer(msg)
        except (IndexError, struct.error):
            continue
        if out:
            s.sendto(out, peer)


def serve_echo(s):
    while True:
        msg, peer = s.recvfrom(65536)
        s.sendto(msg, peer)


def serve_datagrams():
    """The name server, at its own address and at another one that a program may try; and what sends all back."""
    for address in "127.0.0.1", "203.0.113.20", "2001:db8::20":
        sock = listener(address, 53, socket.SOCK_DGRAM)
        if sock:
            threading.Thread(target=serve_dns, args=[sock], daemon=True).start()
    for address in "203.0.113.10", "203.0.113.20", "2001:db8::20":
        for port in 123, 443, 7001:
            sock = listener(address, port, socket.SOCK_DGRAM)
            if sock:
                threading.Thread(target=serve_echo, args=[sock], daemon=True).start()


async def dns_stream(reader, writer):
    while head := await reader.readexactly(2):
        out = dns_answer(await reader.readexactly(int.from_bytes(head, "big")))
        writer.write(len(out).to_bytes(2, "big") + out)


# --- the web ---

def pattern(n):
    block = hashlib.sha256(b"pattern").digest() * 2048  # 64 KiB
    while n > 0:
        yield block[:n]
        n -= len(block)


class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def text(self, text, status=200):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def noted(self):
        note("http.log", " ".join([self.command, self.headers.get("Host", "-"), self.path]))

    def do_GET(self):
        self.noted()
        if self.headers.get("Upgrade", "").lower() == "websocket":
            return self.upgrade()
        if self.path.startswith("/git/"):
            return self.file()
        if self.path.startswith("/bulk/"):
            n = int(self.path[6:])
            self.send_response(200)
            self.send_header("Content-Length", str(n))
            self.end_headers()
            for block in pattern(n):
                self.wfile.write(block)
            return None
        return self.text("hello " + self.headers.get("Host", "-") + "\n")

    def do_PUT(self):
        self.noted()
        digest = hashlib.sha256()
        left = int(self.headers["Content-Length"])
        while left:
            block = self.rfile.read(min(left, 1 << 16))
            if not block:
                return
            digest.update(block)
            left -= len(block)
        self.text(digest.hexdigest() + "\n")

    do_POST = do_PUT

    def file(self):
        """A git repository as plain files."""
        path = os.path.normpath(os.path.join(DIR, self.path.split("?")[0].lstrip("/")))
        if not path.startswith(DIR + "/git/") or not os.path.isfile(path):
            self.text("no such file\n", 404)
            return
        with open(path, "rb") as f:
            data = f.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def upgrade(self):
        """After 101, what comes is sent back in capitals; the first words are the server's."""
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.end_headers()
        self.wfile.write(b"\x81\x05first")
        while True:
            data = self.rfile.read1(4096)
            if not data:
                break
            self.wfile.write(data.upper())
        self.close_connection = True


class WebServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    tls = None

    def __init__(self, sock):
        super().__init__(sock.getsockname()[:2], Web, bind_and_activate=False)
        self.socket.close()
        self.socket = sock

    def finish_request(self, request, client_address):
        if self.tls:
            try:
                request = self.tls.wrap_socket(request, server_side=True)
            except (OSError, ssl.SSLError):
                return
        super().finish_request(request, client_address)

    def handle_error(self, request, client_address):
        pass


def serve_web():
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(os.path.join(DIR, "server.pem"), os.path.join(DIR, "server.key"))
    listeners = [(listener(a, p), tls if p == 443 else None) for a in WEB for p in (80, 443)]
    listeners += [(listener(a, p), None) for a in ("0.0.0.0", "::") for p in (8080, 8090)]
    for sock, context in listeners:
        if sock:
            server = WebServer(sock)
            server.tls = context
            threading.Thread(target=server.serve_forever, daemon=True).start()


# --- streams ---

async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def digest(reader, writer):
    """All that comes, up to its end; then its digest."""
    h = hashlib.sha256()
    while data := await reader.read(65536):
        h.update(data)
    writer.write(h.hexdigest().encode() + b"\n")


async def ends_first(reader, writer):
    """Says something and ends its half; the digest of what comes then goes to ends.log."""
    h = hashlib.sha256()
    writer.write(b"that is all\n")
    writer.write_eof()
    while data := await reader.read(65536):
        h.update(data)
    note("ends.log", "ends_first " + h.hexdigest())


async def resets(reader, writer):
    await reader.read(1)
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def how_it_ends(reader, writer):
    """Its first line is a name; ends.log gets `name end` or `name reset`."""
    name = (await reader.readline()).decode().strip()
    writer.write(b"ok\n")
    try:
        while await reader.read(65536):
            pass
        note("ends.log", name + " end")
    except ConnectionResetError:
        note("ends.log", name + " reset")


async def source(_reader, writer):
    """Without an end."""
    block = bytes(1 << 16)
    while True:
        writer.write(block)
        await writer.drain()


async def sink(reader, writer):
    """Reads nothing for a while."""
    writer.write(b"ready\n")
    await asyncio.sleep(4)
    n = 0
    while data := await reader.read(65536):
        n += len(data)
    note("ends.log", f"sink {n}")


async def silent(reader, _writer):
    await reader.read()


async def speaks_first(reader, writer):
    writer.write(b"220 smtp.test ready\r\n")
    while line := await reader.readline():
        writer.write(b"250 " + line)


STREAMS = {7001: echo, 7002: digest, 7003: ends_first, 7004: resets, 7005: how_it_ends, 7006: source, 7007: sink, 7008: silent,
           25: speaks_first, 2222: speaks_first}


def closing(handler):
    async def run(reader, writer):
        try:
            await handler(reader, writer)
            await writer.drain()
        except (OSError, EOFError):
            pass
        finally:
            writer.close()
    return run


async def main():
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    for name in ("dns.log", "http.log", "ends.log"):
        open(os.path.join(DIR, name), "w").close()
    serve_datagrams()
    serve_web()
    servers = []
    for port, handler in STREAMS.items():
        for address in ("0.0.0.0", "::"):
            sock = listener(address, port)
            if sock:
                servers.append(await asyncio.start_server(closing(handler), sock=sock, backlog=4096))
    servers.append(await asyncio.start_server(closing(dns_stream), sock=listener("203.0.113.20", 53)))
    open(os.path.join(DIR, "up"), "w").close()
    await asyncio.Event().wait()


asyncio.run(main())
