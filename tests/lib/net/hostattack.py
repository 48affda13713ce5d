#!/usr/bin/env python3
"""hostattack.py GROUP...: what a program may try in a box that has the host's network (egress.mode = host), beside the groups of
attack.py. One line an attempt: `NAME: ok` where it came through. Run in the box, where web.test is what may be reached, and
outside of it."""
import os
import socket
import struct
import subprocess
import sys
import time

from attack import DENIED4, DENIED6, MSG_FASTOPEN, attempt, echoed, open_socket, ping

ALLOWED4 = "203.0.113.10"
SO_BINDTODEVICE, IP_OPTIONS, IPV6_RTHDR, IP_FREEBIND, IPV6_V6ONLY = 25, 4, 57, 15, 26


def tcp(address, port=7001, prepare=None):
    s = open_socket(socket.SOCK_STREAM, address)
    if prepare:
        prepare(s)
    s.connect((address, port))
    s.sendall(b"ping")
    return echoed(s)


def udp(address, port=7001, prepare=None, flags=0):
    s = open_socket(socket.SOCK_DGRAM, address)
    if prepare:
        prepare(s)
    s.sendto(b"ping", flags, (address, port))
    return echoed(s)


def udp_connected(address, port=7001):
    s = open_socket(socket.SOCK_DGRAM, address)
    s.connect((address, port))
    s.send(b"ping")
    return echoed(s)


def unspecified(s):
    """connect(2) with AF_UNSPEC: the socket forgets its peer."""
    libc = __import__("ctypes").CDLL(None, use_errno=True)
    if libc.connect(s.fileno(), bytes(16), 16) < 0:
        raise OSError(__import__("ctypes").get_errno(), "AF_UNSPEC")


def reconnected(kind):
    """First to where it may, then to where it may not."""
    s = open_socket(kind, ALLOWED4)
    s.connect((ALLOWED4, 443))
    if kind == socket.SOCK_DGRAM:
        s.send(b"ping")
        s.recv(100)
    unspecified(s)
    s.connect((DENIED4, 7001))
    s.send(b"ping")
    return echoed(s)


def sent_aside(address):
    """A connected socket, and a datagram to another place, whose answer it would not get."""
    s = open_socket(socket.SOCK_DGRAM, ALLOWED4)
    s.connect((ALLOWED4, 443))
    return "ok" if s.sendto(b"ping", (address, 7001)) else "other"


def mapped(kind):
    s = socket.socket(socket.AF_INET6, kind)
    s.settimeout(2)
    if kind == socket.SOCK_DGRAM:
        s.sendto(b"ping", ("::ffff:" + DENIED4, 7001))
    else:
        s.connect(("::ffff:" + DENIED4, 7001))
        s.sendall(b"ping")
    return echoed(s)


def fast_open(address, port=7001):
    s = open_socket(socket.SOCK_STREAM, address)
    s.setblocking(True)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 2, 0))
    s.sendto(b"ping", MSG_FASTOPEN, (address, port))
    return echoed(s)


def source_route(s):
    """LSRR by way of the denied address (RFC 791 3.1)."""
    s.setsockopt(socket.IPPROTO_IP, IP_OPTIONS, b"\x83\x07\x04" + socket.inet_aton(DENIED4) + b"\0")


def segment_route(s):
    """The same with IPv6: a segment routing header (RFC 8754) with the denied address as the first hop."""
    body = struct.pack("BBBBBBH", 0, 4, 4, 1, 1, 0, 0)
    s.setsockopt(socket.IPPROTO_IPV6, IPV6_RTHDR, body + bytes(16) + socket.inet_pton(socket.AF_INET6, DENIED6))


def through_loopback(s):
    s.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, b"lo\0")


def elsewhere():
    for address in DENIED4, DENIED6:
        attempt(f"tcp {address}", tcp, address)
        attempt(f"udp {address}", udp, address)
        attempt(f"udp connected {address}", udp_connected, address)
        attempt(f"fast open {address}", fast_open, address)
        attempt(f"tcp by lo {address}", tcp, address, 7001, through_loopback)
        attempt(f"udp by lo {address}", udp, address, 7001, through_loopback)
        attempt(f"udp more {address}", udp, address, 7001, None, socket.MSG_DONTROUTE)
    attempt("tcp mapped", mapped, socket.SOCK_STREAM)
    attempt("udp mapped", mapped, socket.SOCK_DGRAM)
    attempt("tcp reconnected", reconnected, socket.SOCK_STREAM)
    attempt("udp reconnected", reconnected, socket.SOCK_DGRAM)
    attempt("udp aside", sent_aside, DENIED4)
    attempt("other port tcp", tcp, ALLOWED4, 7001)
    attempt("other port udp", udp, ALLOWED4, 7001)


def multicast():
    """Each has the kernel send a report with the group's address."""
    index = struct.pack("i", socket.if_nametoindex("lo"))
    four, six = socket.inet_aton("239.1.2.3"), socket.inet_pton(socket.AF_INET6, "ff05::1:2:3")
    any4 = struct.pack("=H2x4s120x", socket.AF_INET, four)
    source4 = struct.pack("=H2x4s120x", socket.AF_INET, socket.inet_aton(ALLOWED4))
    any6 = struct.pack("=HHI16sI100x", socket.AF_INET6, 0, 0, six, 0)
    group = index + bytes(4)
    for name, address, level, option, value in (
            ("IP_ADD_MEMBERSHIP", ALLOWED4, 0, 35, four + bytes(4) + index),
            ("IP_ADD_SOURCE_MEMBERSHIP", ALLOWED4, 0, 39, four + socket.inet_aton("127.0.0.1") + socket.inet_aton(ALLOWED4)),
            ("MCAST_JOIN_GROUP", ALLOWED4, 0, 42, group + any4),
            ("MCAST_JOIN_SOURCE_GROUP", ALLOWED4, 0, 46, group + any4 + source4),
            ("IPv4's of an IPv6 socket", "::1", 0, 35, four + bytes(4) + index),
            ("IPV6_JOIN_GROUP", "::1", 41, 20, six + index),
            ("MCAST_JOIN_GROUP of IPv6", "::1", 41, 42, group + any6)):
        attempt(name, lambda: open_socket(socket.SOCK_DGRAM, address).setsockopt(level, option, value) or "ok")


def routes():
    """Outside they need servers that honour them; in the box the first packet must not leave."""
    attempt("source route udp", udp, ALLOWED4, 443, source_route)
    attempt("source route tcp", tcp, ALLOWED4, 443, source_route)
    attempt("other name server", udp, DENIED4, 53)
    attempt("local name server", udp, "127.0.0.1", 53)
    attempt("segment route udp", udp, "2001:db8::10", 443, segment_route)


def local():
    for address in "127.0.0.1", "::1", "0.0.0.0", "::", "127.0.0.2", "198.51.100.7", "2001:db8:ffff::1":
        attempt(f"local {address}", web, address)
    attempt("local mapped", web, "::ffff:127.0.0.1")
    attempt("private", web, "10.1.2.3", 80)
    attempt("metadata", web, "169.254.169.254", 80)


def web(address, port=8090):
    s = socket.create_connection((address, port), 2)
    s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    return "ok" if s.recv(100).startswith(b"HTTP/1.1 200") else "other"


def bound(kind, address, port):
    s = open_socket(kind, address)
    s.bind((address, port))
    return "ok"


def ports():
    for address in "0.0.0.0", "127.0.0.1", "::", "::1":
        attempt(f"bind tcp {address}", bound, socket.SOCK_STREAM, address, 7755)
        attempt(f"bind udp {address}", bound, socket.SOCK_DGRAM, address, 7755)
    attempt("bind free port", lambda: bound(socket.SOCK_DGRAM, "0.0.0.0", 0) and "may")


def families():
    attempt("ping", ping, DENIED4, socket.SOCK_DGRAM)
    attempt("ping allowed", ping, ALLOWED4, socket.SOCK_DGRAM)
    attempt("raw", ping, ALLOWED4, socket.SOCK_RAW)
    attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300) and "ok")
    attempt("mptcp", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) and "ok")
    attempt("udplite", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136) and "ok")
    attempt("abstract stream", abstract, socket.SOCK_STREAM)
    attempt("abstract datagram", abstract, socket.SOCK_DGRAM)
    attempt("add address", lambda: ip("address", "add", "192.0.2.200/32", "dev", "lo"))
    attempt("add route", lambda: ip("route", "add", "192.0.2.201/32", "dev", "lo"))
    attempt("transparent", lambda: socket.socket().setsockopt(socket.IPPROTO_IP, 19, 1) or "ok")


def abstract(kind):
    s = socket.socket(socket.AF_UNIX, kind)
    s.connect(f"\0agentbox-test-{kind.value}-{sys.argv[-1]}")
    return "ok"


def ip(*words):
    return "ok" if subprocess.run(["ip", *words], stderr=subprocess.DEVNULL, check=False).returncode == 0 else "refused"


def listeners(path):
    """Waits to be talked to, on ports that the kernel chose; says them in a file, and what it heard."""
    sock = [socket.socket(socket.AF_INET6, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]
    for s in sock:
        s.settimeout(4)
        s.bind(("::", 0))
    sock[0].listen()
    with open(path + ".new", "w", encoding="ascii") as f:
        f.write(" ".join(str(s.getsockname()[1]) for s in sock) + "\n")
    os.rename(path + ".new", path)
    attempt("heard datagram", lambda: sock[1].recvfrom(100) and "ok")
    attempt("heard stream", lambda: sock[0].accept() and "ok")


def serve_abstract(mark):
    """Outside: abstract sockets, until it is killed."""
    keep = []
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
        s = socket.socket(socket.AF_UNIX, kind)
        s.bind(f"\0agentbox-test-{kind.value}-{mark}")
        if kind == socket.SOCK_STREAM:
            s.listen()
        keep.append(s)
    print("up", flush=True)
    __import__("signal").pause()


def talk(stream, datagram):
    """Outside: to what listens in the box. A connection counts when it is there."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(3):
        s.sendto(b"hello", ("127.0.0.1", int(datagram)))
    attempt("talked", lambda: socket.create_connection(("127.0.0.1", int(stream)), 1) and "ok")


HANDED = [(kind, address) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM) for address in (ALLOWED4, DENIED4, DENIED6)]


def hand(path):
    """Gives sockets to whoever takes them, and stays until that one lets it go."""
    keep = [open_socket(*one) for one in HANDED]
    u = socket.socket(socket.AF_UNIX)
    u.connect(path)
    socket.send_fds(u, [b"x"], [s.fileno() for s in keep])
    u.recv(1)


def take(path):
    """Takes them, and tries them once the run that they are of is over: when the file `path`.over is there."""
    u = socket.socket(socket.AF_UNIX)
    u.bind(path)
    u.listen()
    c, _ = u.accept()
    fds = socket.recv_fds(c, 1, len(HANDED))[1]
    print("taken", len(fds), flush=True)
    for _ in range(200):
        if os.path.exists(path + ".go"):
            c.close()
        if os.path.exists(path + ".over"):
            break
        time.sleep(0.05)
    for fd, (kind, address) in zip(fds, HANDED):
        s = socket.socket(fileno=fd)
        s.settimeout(2)
        attempt(f"handed {kind.name} {address}", lambda: s.connect((address, 7001)) or s.sendall(b"ping") or echoed(s))


def quic():
    """Both ways, more than one datagram, of the size that QUIC has."""
    s = open_socket(socket.SOCK_DGRAM, ALLOWED4)
    name = socket.gethostbyname("web.test")
    for i in range(5):
        s.sendto(bytes([i]) * 1200, (name, 443))
    got = {s.recv(2000) for _ in range(5)}
    print("quic: ok" if got == {bytes([i]) * 1200 for i in range(5)} else "quic: other")


def main():
    if sys.argv[1] in ("listeners", "serve_abstract", "talk", "hand", "take"):
        globals()[sys.argv[1]](*sys.argv[2:])
        return
    for group in sys.argv[1].split(","):
        globals()[group]()


main()
