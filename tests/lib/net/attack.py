#!/usr/bin/env python3
"""attack.py GROUP...: what a program may try to get past a name rule for web.test, one line an attempt: `NAME: ok` where it came
through, else what happened instead. Run in the box and outside of it, where all of `sockets` come through.

denied.test and 203.0.113.20 are what must not be reached; web.test is what may."""
import ctypes
import os
import socket
import ssl
import struct
import sys

DENIED4, DENIED6 = "203.0.113.20", "2001:db8::20"
PROXY = ("127.0.0.1", 18255)
LONG = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 56, "test"])  # 253 bytes, the longest there is
MSG_FASTOPEN, IPPROTO_MPTCP, IPPROTO_UDPLITE = 0x20000000, 262, 136


def attempt(name, function, *args):
    try:
        result = function(*args)
    except OSError as e:
        result = "timeout" if isinstance(e, TimeoutError) else e.strerror or type(e).__name__
    except EOFError:
        result = "closed"
    print(f"{name}: {result}", flush=True)


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def open_socket(kind, address, protocol=0):
    s = socket.socket(family(address), kind, protocol)
    s.settimeout(2)
    return s


# --- A9: sockets ---

def echoed(s):
    return "ok" if s.recv(100) == b"ping" else "other"


def udp(address, port):
    s = open_socket(socket.SOCK_DGRAM, address)
    s.sendto(b"ping", (address, port))
    return echoed(s)


def udp_connected(address, port):
    s = open_socket(socket.SOCK_DGRAM, address)
    s.connect((address, port))
    s.send(b"ping")
    return echoed(s)


def sendmmsg(address, port):
    """Several datagrams in one call, of which only the first would be looked at by who hooks sendmsg."""
    class Iovec(ctypes.Structure):
        _fields_ = [("base", ctypes.c_char_p), ("len", ctypes.c_size_t)]

    class Msghdr(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("namelen", ctypes.c_uint), ("iov", ctypes.POINTER(Iovec)),
                    ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
                    ("flags", ctypes.c_int)]

    class Mmsghdr(ctypes.Structure):
        _fields_ = [("hdr", Msghdr), ("len", ctypes.c_uint)]

    s = open_socket(socket.SOCK_DGRAM, address)
    name = struct.pack("=HH", socket.AF_INET, socket.htons(port)) + socket.inet_aton(address) + bytes(8)
    iov = Iovec(b"ping", 4)
    messages = (Mmsghdr * 2)(*[Mmsghdr(Msghdr(name, len(name), ctypes.pointer(iov), 1, None, 0, 0), 0) for _ in range(2)])
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.sendmmsg(s.fileno(), messages, 2, 0) < 0:
        return os.strerror(ctypes.get_errno())
    return echoed(s)


def tcp(address, port, protocol=0, source=None):
    s = open_socket(socket.SOCK_STREAM, address, protocol)
    if source:
        s.bind((source, 0))
    s.connect((address, port))
    s.sendall(b"ping")
    return echoed(s)


def fast_open(address, port):
    s = open_socket(socket.SOCK_STREAM, address)
    s.setblocking(True)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 2, 0))
    s.sendto(b"ping", MSG_FASTOPEN, (address, port))
    return echoed(s)


def ping(address, kind):
    s = open_socket(kind, address, socket.IPPROTO_ICMP)
    body = struct.pack(">BBHHH", 8, 0, 0, os.getpid() & 0xffff, 1)
    total = sum(struct.unpack(">4H", body))
    body = body[:2] + struct.pack(">H", ~(total + (total >> 16)) & 0xffff) + body[4:]
    s.sendto(body, (address, 0))
    s.recv(100)
    return "ok"


def sockets():
    for address in DENIED4, DENIED6:
        for port in 123, 443, 7001:
            attempt(f"udp {address} {port}", udp, address, port)
        attempt(f"udp connected {address}", udp_connected, address, 7001)
        attempt(f"tcp {address}", tcp, address, 7001)
        attempt(f"fastopen {address}", fast_open, address, 7001)
        attempt(f"mptcp {address}", tcp, address, 7001, IPPROTO_MPTCP)
    attempt("udp web.test", udp, "web.test", 443)
    attempt("sendmmsg", sendmmsg, DENIED4, 7001)
    attempt("udplite", lambda: bool(open_socket(socket.SOCK_DGRAM, DENIED4, IPPROTO_UDPLITE)) and "ok")
    attempt("ping", ping, DENIED4, socket.SOCK_DGRAM)
    attempt("tcp from the loopback", tcp, "127.0.0.1", 7001, 0, "127.0.0.1")
    attempt("tcp own port", tcp, "web.test", 7001)
    attempt("fastopen own port", fast_open, socket.gethostbyname("web.test"), 7001)


def raw():
    """What needs privilege outside."""
    attempt("raw icmp", ping, DENIED4, socket.SOCK_RAW)
    attempt("packet", lambda: bool(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300)) and "ok")
    attempt("transparent", lambda: socket.socket().setsockopt(socket.IPPROTO_IP, 19, 1) or "ok")


def plumbing():
    """What is in a box's network only: none of it may lead anywhere."""
    for address in "127.0.0.1", "198.18.255.254", "::1", "fd00:ab::ffff":
        attempt(f"listener {address}", lambda a: http_over(open_to(a, 18254), "web.test"), address)
    attempt("not given", lambda: http_over(open_to("198.18.77.77", 80), "web.test"))
    attempt("this host", lambda: http_over(open_to("198.18.0.1", 8090), "web.test"))
    attempt("tcp 53", lambda: http_over(open_to("203.0.113.20", 53), "web.test"))
    attempt("proxy loop", lambda: http_over(connect_by_proxy(b"127.0.0.1:18255"), "web.test"))


def open_to(address, port):
    return socket.create_connection((address, port), 3)


# --- HTTP and TLS on the way ---

def receive(s, until=b"\r\n\r\n"):
    data = b""
    while until not in data:
        more = s.recv(65536)
        if not more:
            raise EOFError
        data += more
    return data


def outcome(answer):
    """What the first line and the body say."""
    if b" 403 " in answer.split(b"\r\n")[0]:
        return "403"
    return "ok" if b"hello" in answer or answer.startswith(b"HTTP/1.1 200") else answer.split(b"\r\n")[0].decode("latin-1")


def http_over(s, host, rest=b"", path=b"/"):
    if isinstance(host, str):
        host = host.encode()
    s.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\n" + rest + b"\r\n")
    return outcome(receive(s))


def connect_by_proxy(target):
    s = open_to(*PROXY)
    s.sendall(b"CONNECT " + target + b" HTTP/1.1\r\nHost: " + target + b"\r\n\r\n")
    answer = receive(s)
    if b" 200 " not in answer.split(b"\r\n")[0]:
        raise OSError(0, answer.split(b"\r\n")[0].decode("latin-1").split(" ", 2)[1])
    return s


def socks(name, port=80, kind=3):
    s = open_to(*PROXY)
    s.sendall(b"\5\1\0")
    if s.recv(2) != b"\5\0":
        raise EOFError
    s.sendall(b"\5\1\0" + bytes([kind]) + (bytes([len(name)]) if kind == 3 else b"") + name + struct.pack(">H", port))
    answer = s.recv(10)
    if len(answer) < 10:
        raise EOFError
    if answer[1]:
        raise OSError(0, f"reply {answer[1]}")
    return s


def hello(name):
    """A TLS hello as OpenSSL makes it; name: bytes of any kind put in the place of a name of the same length."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    out = ssl.MemoryBIO()
    place = b".".join([b"x" * 40] * 8)[-len(name):] if name else b""
    if place[:1] == b".":
        place = b"x" + place[1:]
    tls = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=place.decode() if name else None)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    data = out.read()
    assert not name or data.count(place) == 1
    return data.replace(place, name) if name else data


def sni(name, address="web.test"):
    s = open_to(address, 443)
    s.sendall(hello(name))
    answer = s.recv(5)
    if len(answer) < 5:
        raise EOFError
    return "ok" if answer[0] == 22 else "alert" if answer[0] == 21 else "other"


# --- A12: names ---

NAMES = {
    "plain": b"web.test",
    "trailing dot": b"web.test.",
    "case": b"WeB.tEsT",
    "longest": LONG.encode(),
    "punycode": b"xn--bcher-kva.test",
    "empty": b"",
    "dot": b".",
    "two trailing dots": b"web.test..",
    "leading dot": b".web.test",
    "empty label": b"web..test",
    "nul at the end": b"web.test\0",
    "nul": b"denied.test\0.web.test",
    "nul after": b"web.test\0.denied.test",
    "crlf": b"web.test\r\nHost: denied.test",
    "lf": b"web.test\nX: y",
    "blank": b"web.test ",
    "blank before": b" denied.test",
    "tab": b"web.test\t",
    "slash": b"web.test/",
    "at": b"denied.test@web.test",
    "at after": b"web.test@denied.test",
    "percent": b"web.test%00.denied.test",
    "hash": b"denied.test#.web.test",
    "question": b"denied.test?.web.test",
    "backslash": b"denied.test\\.web.test",
    "star": b"*.web.test",
    "utf-8": "b\u00fccher.test".encode(),
    "look-alike": "w\u0435b.test".encode(),
    "wide dot": "web\u3002test".encode(),
    "254 bytes": b"e." + LONG.encode()[1:],
    "255 bytes": b"ee" + b"." + LONG.encode()[1:],
    "64 bytes in a label": b"f" * 64 + b".test",
    "denied": b"denied.test",
    "beneath": b"www.web.test",
    "suffix": b"evilweb.test",
    "address": b"203.0.113.20",
    "short address": b"127.1",
    "hex address": b"0x7f.0.0.1",
    "number": b"2130706433",
    "mapped": b"[::ffff:203.0.113.20]",
    "service": b"web.test:80:443",
}


def names():
    for what, name in NAMES.items():
        attempt(f"connect {what}", lambda n: http_over(connect_by_proxy(n + b":80"), n), name)
        attempt(f"socks {what}", lambda n: http_over(socks(n), n), name)
        attempt(f"url {what}", lambda n: http_over(open_to(*PROXY), n, b"", b"http://" + n + b"/"), name)
        if what not in ("longest", "punycode"):  # allowed, and not what web.test's connection is for
            attempt(f"host {what}", lambda n: http_over(open_to("web.test", 80), n), name)
            if len(name) > 3:  # `fronting` has a hello without a name
                attempt(f"sni {what}", sni, name)


# --- A13: one name for the rule, another for the server ---

def after(first, second):
    """Two requests on one connection, the second when the first is answered."""
    s = open_to("web.test", 80)
    s.sendall(first)
    answer = receive(s, b"\n")
    if b"hello" not in answer:
        answer += receive(s, b"hello")
    if b" 200 " not in answer:
        return "the first: " + outcome(answer)
    s.sendall(second)
    return outcome(receive(s))


def both_at_once(first, second):
    s = open_to("web.test", 80)
    s.sendall(first + second)
    data = b""
    try:
        while more := s.recv(65536):
            data += more
            if data.count(b"HTTP/1.1 ") > 1 and b"hello denied" in data:
                return "ok"
    except OSError as e:
        return e.strerror
    return "403" if b" 403 " in data else "closed"


def tls_over(s, name):
    s.sendall(hello(name))
    answer = s.recv(5)
    if len(answer) < 5:
        raise EOFError
    return "ok" if answer[0] == 22 else "alert"


def in_pieces():
    s = open_to("web.test", 443)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in hello(b"web.test"):
        s.sendall(bytes([byte]))
    return "ok" if s.recv(1) == b"\x16" else "other"


def in_records():
    """The hello over many records (RFC 8446 5.1)."""
    body = hello(b"web.test")[5:]
    s = open_to("web.test", 443)
    s.sendall(b"".join(b"\x16\x03\x01" + struct.pack(">H", len(body[i:i + 50])) + body[i:i + 50] for i in range(0, len(body), 50)))
    return "ok" if s.recv(1) == b"\x16" else "other"


GOOD = b"GET / HTTP/1.1\r\nHost: web.test\r\n\r\n"
EVIL = b"GET /evil HTTP/1.1\r\nHost: denied.test\r\n\r\n"
SMUGGLED = {
    "two hosts": b"GET / HTTP/1.1\r\nHost: web.test\r\nHost: denied.test\r\n\r\n",
    "two hosts, other order": b"GET / HTTP/1.1\r\nHost: denied.test\r\nHost: web.test\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "old": b"GET / HTTP/1.0\r\n\r\n",
    "folded": b"GET / HTTP/1.1\r\nHost: web.test\r\n denied.test\r\n\r\n",
    "blank before the colon": b"GET / HTTP/1.1\r\nHost : denied.test\r\nHost: web.test\r\n\r\n",
    "absolute": b"GET http://denied.test/ HTTP/1.1\r\nHost: web.test\r\n\r\n",
    "absolute, other way": b"GET http://web.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n",
    "nul in the name": b"GET / HTTP/1.1\r\nHost: denied.test\0web.test\r\n\r\n",
    "bare lf": b"GET / HTTP/1.1\nHost: denied.test\n\n",
    "cr": b"GET / HTTP/1.1\r\nHost: web.test\rHost: denied.test\r\n\r\n",
    "length and chunks": b"POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + EVIL,
    "two lengths": b"POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 0\r\nContent-Length: 60\r\n\r\n" + EVIL,
    "length with a sign": b"POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: +0\r\n\r\n" + EVIL,
    "after a body": b"POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 3\r\n\r\nabc" + EVIL,
    "in the body of a GET": b"GET / HTTP/1.1\r\nHost: web.test\r\nContent-Length: %d\r\n\r\n" % len(EVIL) + EVIL,
    "odd coding": b"POST / HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n" + EVIL,
    "after an unwanted upgrade": b"GET / HTTP/1.1\r\nHost: web.test\r\nConnection: Upgrade\r\nUpgrade: websocke\r\n\r\n" + EVIL,
    "connect": b"CONNECT denied.test:80 HTTP/1.1\r\nHost: web.test\r\n\r\n",
}


def smuggled(data):
    s = open_to("web.test", 80)
    s.settimeout(0.5)
    s.sendall(data)
    got = b""
    try:
        while more := s.recv(65536):
            got += more
            if b"denied.test\n" in got:
                break
    except OSError:
        pass
    return "ok" if b"denied.test\n" in got else "no"


def fronting():
    attempt("connect, host", lambda: http_over(connect_by_proxy(b"web.test:80"), "denied.test"))
    attempt("connect, sni", lambda: tls_over(connect_by_proxy(b"web.test:443"), b"denied.test"))
    attempt("connect denied, sni allowed", lambda: tls_over(connect_by_proxy(b"denied.test:443"), b"web.test"))
    attempt("socks, sni", lambda: tls_over(socks(b"web.test", 443), b"denied.test"))
    attempt("socks by address, sni", lambda: tls_over(socks(socket.inet_aton(DENIED4), 443, 1), b"web.test"))
    attempt("sni", sni, b"denied.test")
    attempt("no sni", sni, b"")
    attempt("no sni by the proxy", lambda: tls_over(connect_by_proxy(b"web.test:443"), b""))
    attempt("no tls", lambda: http_over(open_to("web.test", 443), "web.test"))
    attempt("host", lambda: http_over(open_to("web.test", 80), "denied.test"))
    attempt("second request", after, GOOD, EVIL)
    attempt("second request, same host", after, GOOD, GOOD)
    attempt("second request at once", both_at_once, GOOD, EVIL)
    attempt("url, host", lambda: http_over(open_to(*PROXY), b"denied.test", b"", b"http://web.test/"))
    attempt("second url", second_url)
    attempt("hello in pieces", in_pieces)
    attempt("hello in records", in_records)
    for what, data in SMUGGLED.items():
        attempt("smuggled, " + what, smuggled, data)


def second_url():
    s = open_to(*PROXY)
    s.sendall(b"GET http://web.test/ HTTP/1.1\r\nHost: web.test\r\n\r\nGET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n")
    data = b""
    while more := s.recv(65536):
        data += more
    return "ok" if b"hello denied" in data or data.count(b"HTTP/1.1 200") != 1 else "one answer"


# --- A14: DNS ---

def wire(name):
    return b"".join(bytes([len(label)]) + label for label in name.split(b".") if label) + b"\0"


def query(name, kind=1, flags=0x0100, counts=(1, 0, 0, 0)):
    return struct.pack(">HH4H", 4711, flags, *counts) + (name if isinstance(name, bytes) else wire(name.encode())) + \
        struct.pack(">HH", kind, 1)


def answer_text(data):
    """RCODE and, with answers, the address of the last."""
    rcode, n = data[3] & 15, struct.unpack(">H", data[6:8])[0]
    names_ = {0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}
    return names_.get(rcode, str(rcode)) + (f" {n}" if n else "") + (" " + socket.inet_ntoa(data[-4:]) if n == 1 else "")


def by_udp(data, server="198.18.255.254"):
    s = open_socket(socket.SOCK_DGRAM, server)
    s.settimeout(1)
    s.sendto(data, (server, 53))
    return answer_text(s.recv(65535))


def by_tcp(data, server="198.18.255.254", length=None):
    s = open_to(server, 53)
    s.settimeout(2)
    s.sendall(struct.pack(">H", len(data) if length is None else length) + data)
    head = s.recv(2)
    if len(head) < 2:
        raise EOFError
    return answer_text(s.recv(65535))


def other_server():
    """Outside, that server tells all."""
    for server in DENIED4, DENIED6:
        attempt(f"udp {server} denied", by_udp, query("denied.test"), server)
        attempt(f"udp {server} allowed", by_udp, query("web.test"), server)
    attempt("tcp denied", by_tcp, query("denied.test"), DENIED4)
    attempt("tcp allowed", by_tcp, query("web.test"), DENIED4)


def dns():
    for what, kind in ("TXT", 16), ("ANY", 255), ("AXFR", 252), ("IXFR", 251), ("MX", 15), ("CNAME", 5), ("HTTPS", 65), ("NULL", 10):
        attempt(f"{what} allowed", by_udp, query("web.test", kind))
        attempt(f"{what} denied", by_udp, query("secret.denied.test", kind))
        attempt(f"{what} allowed by tcp", by_tcp, query("web.test", kind))
    loops = {
        "loop": b"\xc0\x0c", "two pointers": b"\xc0\x0e\xc0\x0c", "label and loop": b"\1a\xc0\x0c", "forward": b"\xc0\xff",
        "label type": b"\x41a\0", "no end": b"\x3f" + b"a" * 63, "nul label": b"\7a\0.b\0cd\4test\0",
        "dot in a label": b"\x08web.test\0", "empty": b"", "root": b"\0",
    }
    for what, name in loops.items():
        attempt(what, by_udp, query(name))
    attempt("many questions", by_udp, query("web.test", counts=(65535, 65535, 65535, 65535)))
    attempt("no question", by_udp, query("web.test", counts=(0, 0, 0, 0)))
    attempt("an answer", by_udp, query("web.test", flags=0x8180))
    attempt("notify", by_udp, query("web.test", flags=0x2000))
    attempt("update", by_udp, query("web.test", flags=0x2800))
    attempt("short", by_udp, b"\0\1\1")
    attempt("64 KiB by udp", by_udp, query("web.test") + bytes(65000))
    attempt("64 KiB by tcp", by_tcp, query("web.test") + bytes(65000))
    attempt("length that lies", by_tcp, query("web.test"), "198.18.255.254", 65535)
    for i in range(300):
        data = bytearray(query("web.test") + os.urandom(20))
        for _ in range(4):
            data[os.urandom(1)[0] % len(data)] = os.urandom(1)[0]
        s = open_socket(socket.SOCK_DGRAM, "198.18.255.254")
        s.sendto(data, ("198.18.255.254", 53))
        try:
            s = open_to(*PROXY)
            s.sendall([b"\5", b"CONNECT ", b"GET "][i % 3] + os.urandom(200))
            s.close()
        except OSError:
            pass
    attempt("still there", by_udp, query("web.test"))
    attempt("case kept", by_udp, query("WeB.TeSt"))


def resolver_address():
    """The resolver's own address on the ports of DNS over HTTPS and over TLS."""
    for address in "198.18.255.254", DENIED4:
        for port in 443, 853:
            attempt(f"{address} {port}", lambda a, p: tls_over(open_to(a, p), b"dns.test"), address, port)


if __name__ == "__main__":
    for group in sys.argv[1:]:
        globals()[group]()
