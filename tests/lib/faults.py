#!/usr/bin/env python3
"""faults.py [--stride N] [--role R] [--call C] NAME TOOL AGENTBOX SCRATCH PROBE [options of run]: each system call of a run
fails once, and what comes of it is judged: either nothing ran, with a reason, or the command was confined as without the fault.

Without --stride every one. Prints "ok NAME: ..." or "not ok ...", a line for each call of each process, "# ..." for what is
wrong and, with FAULTS_VERBOSE set, for every message there was. TOOL is tests/t/probes/fault.c, PROBE confined.c."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time

SECONDS = 20
NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
NETWORK_LINES = ("name ", "connect ", "read from there")


class Run:
    """One run under the tool."""

    def __init__(self, args, fault):
        self.report = os.path.join(args.scratch, "report")
        box = "/workspace/input/confined"
        words = [args.tool, self.report, *fault, "--", args.agentbox, "run", "-q", "--hostname", "faulty",
                 "--ro-bind", args.probe, box, *args.options, "--", box]
        words += ["%s=%d" % (n, os.stat("/proc/self/ns/" + n).st_ino) for n in NAMESPACES]
        if args.connect:
            words += ["--connect", args.connect, "9"]
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                out, err = process.communicate(timeout=SECONDS)
                self.status = process.returncode
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                self.status = -1
        self.out = out.decode(errors="replace")
        self.err = err.decode(errors="replace").splitlines()
        with open(self.report, encoding="utf-8") as f:
            self.notes = f.read().splitlines()
        self.ran = self.out.startswith("RAN")


def runs_of(args):
    directory = os.path.join(args.state, "runs")
    return directory, sorted(n for n in os.listdir(directory)) if os.path.isdir(directory) else []


def forget_runs(args):
    directory, _ = runs_of(args)
    for path, folders, _ in os.walk(directory):
        for folder in folders:
            if not os.path.islink(os.path.join(path, folder)):
                os.chmod(os.path.join(path, folder), 0o700)
    shutil.rmtree(directory, ignore_errors=True)


def processes_left(args):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink("/proc/%s/exe" % pid) == args.agentbox:
                yield "process %s" % pid
        except OSError:
            pass


def left(args):
    """What is left of a run on this host. eBPF programs live as long as a process or a control group holds them."""
    directory, runs = runs_of(args)
    found = list(processes_left(args))
    for path, folders, _ in os.walk("/sys/fs/cgroup"):
        if path.count("/") > 8:
            folders.clear()
        found += ["control group %s/%s" % (path, f) for f in folders if f.startswith("agentbox-") and f[9:] in runs]
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        found += ["mount " + line for line in f if args.scratch + "/" in line]
    known = {"artifacts", "events.jsonl", "run.json", ".run.json.new", "stdout", "stderr"}
    for run in runs:
        if run.startswith("."):
            found.append("runs/" + run)
            continue
        found += ["runs/%s/%s" % (run, n) for n in os.listdir(os.path.join(directory, run))
                  if n not in known]
    return found


def left_after_a_while(args):
    end = time.monotonic() + 2
    found = left(args)
    while found and time.monotonic() < end:
        time.sleep(0.02)
        found = left(args)
    return found


def wrong_record(args, run):
    """The record of the run against how it went."""
    said = " ".join(run.err)
    directory, runs = runs_of(args)
    runs = [r for r in runs if os.path.exists(os.path.join(directory, r, "events.jsonl"))]
    if not runs:
        return ["it ran, and there is no record"] if run.ran else []
    check = subprocess.run([args.agentbox, "log", runs[-1], "--verify"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    try:
        with open(os.path.join(directory, runs[-1], "events.jsonl"), encoding="utf-8") as f:
            events = [json.loads(line) for line in f]
    except ValueError:
        events = []
    ends = [e for e in events if e["type"] == "run.end"]
    if check.returncode != 0 or not ends:
        # A record that could not be written is said, and fails the run.
        if run.status == 125 and "record" in said or "events.jsonl" in said:
            return []
        return ["the record is not valid, status %d: %s" % (run.status, check.stdout.decode().strip()[-200:])]
    reason = ends[0]["reason"]
    if reason != "refused" and not events[0]["cwd"]:
        return ["run.start: no cwd"]
    fits = {0: ("exited",), 125: ("setup-failed", "refused", "failed"), 126: ("not-executable",), 137: ("signaled",)}
    if run.status == 125 and "record" in said:
        # The command may have ended well; that the record has a gap is its last word too, but for run.json, written after it.
        if "cannot write run.json" in said or "on the disk" in said:
            return []
        return [] if ends[0]["status"] == 125 and ends[0].get("message") else ["run.end knows of no gap: %s" % ends[0]]
    if reason not in fits.get(run.status, ()):
        return ["run.end says %s, the status is %d" % (reason, run.status)]
    return []


def without_network(text):
    return [line for line in text.splitlines() if not line.startswith(NETWORK_LINES)]


def mechanisms(args):
    directory, runs = runs_of(args)
    with open(os.path.join(directory, runs[-1], "events.jsonl"), encoding="utf-8") as f:
        return json.loads(f.readline())["mechanisms"]


def wrong_box(args, plain, run, role, call):
    """Was the command confined as without the fault?"""
    if run.out == plain:
        return []
    # A gateway that fails closed lets nobody through.
    if role not in ("init", "command") and without_network(run.out) == without_network(plain):
        if [li for li in run.out.splitlines() if li.startswith("connect") and li.endswith(": yes")] <= \
           [li for li in plain.splitlines() if li.startswith("connect") and li.endswith(": yes")]:
            return []
    if run.status != 0 and plain.startswith(run.out):
        return []
    # A kernel without Landlock is one; the record says so.
    if call == "landlock_create_ruleset" and role == "supervisor" and not mechanisms(args)["landlock"]["in_force"]:
        if [li for li in run.out.splitlines() if not li.startswith("landlock")] == \
           [li for li in plain.splitlines() if not li.startswith("landlock")]:
            return []
    was, now = plain.splitlines(), run.out.splitlines()
    return ["it ran in another box:"] + ["- " + li for li in was if li not in now][:6] + ["+ " + li for li in now if li not in was][:6]


def judge(args, plain, run, role, call):
    """What is wrong with how it went, in words."""
    wrong = [n for n in run.notes if n.startswith(("died", "left"))]
    if run.status == -1:
        wrong.append("it did not come to an end")
    if run.ran:
        wrong += wrong_box(args, plain, run, role, call)
    # A profile's faults are a line each, as a compiler's.
    said = [li for li in run.err if not re.match(r"/[^:]*:\d+: ", li)]
    if not all(li.startswith("agentbox: ") for li in said):
        wrong.append("stderr is not of agentbox's kind")
    if run.status == 125:
        if len(said) != 1:
            wrong.append("%d lines on stderr" % len(said))
        elif not re.match(r"agentbox: .{12,}[: ].{4,}", said[0]):
            wrong.append("no object and reason in the message")
    elif run.status == 0:
        if not run.ran or not run.out.endswith("END\n"):
            wrong.append("status 0, and the command did not run whole")
    elif run.status == 126:
        if call != "execve":
            wrong.append("status 126")
    elif run.status == 137:
        # Of a pid 1 that cannot tell how the command ended, no more is known than that it is gone.
        if role != "init" or call not in ("sendmsg", "poll", "wait4"):
            wrong.append("status 137")
    elif run.status != -1:
        wrong.append("status %d" % run.status)
    wrong += wrong_record(args, run)
    found = left_after_a_while(args)
    if found and "prune" in " ".join(run.err):
        subprocess.run([args.agentbox, "prune"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        found = left_after_a_while(args)
    wrong += ["left: " + f for f in found]
    return wrong


def points(args, notes):
    """(role, call, how often, errno) of what a run without a fault does."""
    for note in notes:
        words = note.split()
        if words[0] in ("unlisted", "injected", "died", "left"):
            continue
        if (not args.role or words[0] == args.role) and (not args.call or words[1] == args.call):
            yield words[0], words[1], int(words[2]), words[3:]


def fail_all(args, plain, role, call, count, errnos):
    tried = harmless = missed = 0
    bad = []
    for nth in range(1, count + 1, args.stride or 1):
        # With a stride one error stands for the others, in turn.
        for how in [errnos[nth // args.stride % len(errnos)]] if args.stride else errnos:
            forget_runs(args)
            run = Run(args, [role, call, str(nth), how])
            if "injected" not in run.notes:
                missed += 1
            else:
                tried += 1
            harmless += run.status == 0
            wrong = judge(args, plain, run, role, call)
            if wrong:
                bad.append("%s %s %d %s: %s" % (role, call, nth, how, "; ".join(wrong[:1])))
                bad += ["    " + w for w in wrong[1:]] + ["    > " + li for li in run.err[:4]]
            elif os.environ.get("FAULTS_VERBOSE"):
                print("# %s %s %d %s: %d %s" % (role, call, nth, how, run.status, " | ".join(run.err)))
    print("%s %s: %s %s fails (%d of %d, %d without harm%s)" % (
        "not ok" if bad else "ok", args.name, role, call, tried, count, harmless, ", %d not reached" % missed if missed else ""))
    for line in bad:
        print("# " + line)
    sys.stdout.flush()
    return tried


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--stride", type=int)
    parser.add_argument("--role")
    parser.add_argument("--call")
    parser.add_argument("--connect")
    for word in ("name", "tool", "agentbox", "scratch", "probe"):
        parser.add_argument(word)
    parser.add_argument("options", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    args.state = os.environ["AGENTBOX_STATE"]
    forget_runs(args)
    start = time.monotonic()
    plain = Run(args, ["count"])
    again = Run(args, ["count"])
    whole = plain.status == 0 and plain.out == again.out and plain.out.endswith("END\n") and not plain.err
    print("%s %s: (the box without a fault, twice the same)" % ("ok" if whole else "not ok", args.name))
    if not whole:
        print("# status %d %s" % (plain.status, plain.err))
        return
    unlisted = sorted({n for n in plain.notes if n.startswith("unlisted")})
    print("%s %s: (every system call is known to the tool)" % ("not ok" if unlisted else "ok", args.name))
    for note in unlisted:
        print("# " + note)
    tried = sum(fail_all(args, plain.out, *point) for point in points(args, plain.notes))
    forget_runs(args)
    print("%s %s: %d faults" % ("ok" if tried > 80 or args.role or args.call else "not ok", args.name, tried))
    print("# %d faults in %d s" % (tried, time.monotonic() - start))


if __name__ == "__main__":
    main()
