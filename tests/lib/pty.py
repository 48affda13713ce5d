#!/usr/bin/env python3
"""pty.py [STEP...] -- COMMAND [ARG...]: COMMAND on a terminal of its own, driven by steps in order.

  -w ROWSxCOLS  the window's size before the start
  -e REGEX      wait for this in the output after the last match (10 s)
  -s TEXT       type this; \\n, \\x1a and the like as in Python
  -r ROWSxCOLS  the window changes its size
  -k SIGNAL     a signal to COMMAND's process (by name, without SIG)
  -h            the terminal hangs up
  -2 FILE       stderr of COMMAND goes to FILE

The output is copied to stdout. At the end a line "[status N]" (-N: killed by signal N), and "[modes kept]" or
"[modes changed]": the terminal's modes as they were before. Status 0 where every -e came, 1 otherwise."""
import fcntl
import os
import re
import select
import signal
import struct
import sys
import termios
import time

SECONDS = 10


def set_size(fd, text):
    rows, cols = text.split("x")
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", int(rows), int(cols), 0, 0))


class Terminal:
    def __init__(self, argv, size, stderr):
        self.master, self.slave = os.openpty()
        set_size(self.master, size)
        self.modes = termios.tcgetattr(self.slave)
        self.seen = b""
        self.at = 0
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.master)
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
            for fd in (0, 1, 2):
                os.dup2(self.slave, fd)
            if stderr:
                os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
            os.closerange(3, 64)
            os.execvp(argv[0], argv)

    def read(self, seconds):
        """More output within that time? False at its end, too."""
        if self.master < 0 or not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.seen += data
        return bool(data)

    def expect(self, pattern):
        end = time.monotonic() + SECONDS
        while True:
            found = re.compile(pattern.encode()).search(self.seen, self.at)
            if found:
                self.at = found.end()
                return True
            if time.monotonic() > end:
                return False
            self.read(0.1)

    def wait(self):
        """The status; a command that does not end is killed."""
        end = time.monotonic() + SECONDS
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while self.read(0.01):
                    pass
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
            self.read(0.05)


def main():
    split = sys.argv.index("--")
    words, argv = sys.argv[1:split], sys.argv[split + 1:]
    steps, size, stderr = [], "24x80", None
    while words:
        step = words.pop(0)
        value = None if step == "-h" else words.pop(0)
        if step == "-w":
            size = value
        elif step == "-2":
            stderr = value
        else:
            steps.append((step, value))
    t = Terminal(argv, size, stderr)
    missed = None
    for step, value in steps:
        if step == "-e":
            if not t.expect(value):
                missed = value
                break
        elif step == "-s":
            os.write(t.master, value.encode().decode("unicode_escape").encode("latin-1"))
        elif step == "-r":
            set_size(t.master, value)
        elif step == "-k":
            os.kill(t.pid, getattr(signal, "SIG" + value))
        elif step == "-h":
            os.close(t.master)
            t.master = -1
    status = t.wait()
    sys.stdout.buffer.write(t.seen)
    print("\n[status %d]" % status)
    if t.master >= 0:
        print("[modes kept]" if termios.tcgetattr(t.slave) == t.modes else "[modes changed]")
    if missed is not None:
        print("[not seen: %s]" % missed)
        sys.exit(1)


main()
