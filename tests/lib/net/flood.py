#!/usr/bin/env python3
"""flood.py WHAT ...: what a program can do without end.

same SECONDS: the same question; names SECONDS: questions for ever other names; connects ADDRESS PORT N: N connections one after
the other; hold NAME PORT N [SECONDS]: N at a time, ten bytes on each, and their number."""
import os
import socket
import sys
import time


def question(name):
    labels = b"".join(bytes([len(x)]) + x for x in name.split(b"."))
    return b"\1\1\1\0\0\1\0\0\0\0\0\0" + labels + b"\0\0\1\0\1"


def questions(names, seconds):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(("192.0.2.53", 53))
    end = time.monotonic() + seconds
    sent = got = 0
    while time.monotonic() < end:
        s.send(question(next(names)))
        sent += 1
        if sent - got > 200:
            s.settimeout(0.5)
            try:
                while True:
                    s.recv(1000)
                    got += 1
                    s.setblocking(False)
            except OSError:
                pass
            s.setblocking(True)
            if sent - got > 200:
                got = sent - 100


def same():
    while True:
        yield b"same.test"


def other():
    n = 0
    while True:
        n += 1
        yield b"n%d.test" % n


def connects(address, port, n):
    for _ in range(n):
        s = socket.socket()
        s.settimeout(5)
        try:
            s.connect((address, port))
            s.recv(1)
        except OSError:
            pass
        s.close()


def hold(name, port, n, seconds=0):
    address = socket.getaddrinfo(name, port, socket.AF_INET)[0][4]
    held = []
    for _ in range(n):
        s = socket.socket()
        try:
            s.connect(address)
            s.send(b"0123456789")
        except OSError:
            continue
        held.append(s)
    print(len(held), flush=True)
    time.sleep(seconds)
    os._exit(0)


what, *args = sys.argv[1:]
if what in ("same", "names"):
    questions(same() if what == "same" else other(), float(args[0]))
elif what == "connects":
    connects(args[0], int(args[1]), int(args[2]))
else:
    hold(args[0], int(args[1]), *map(int, args[2:]))
