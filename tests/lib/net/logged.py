#!/usr/bin/env python3
"""logged.py [--count] TYPE [FIELD=VALUE]...: how many of the events on stdin are of that type and have those fields; --count: an
event that stands for several counts as so many."""
import json
import sys


def text(value):
    return value if isinstance(value, str) else json.dumps(value)


def main():
    several = sys.argv[1] == "--count"
    kind, *wanted = sys.argv[1 + several:]
    wanted = [w.split("=", 1) for w in wanted]
    count = 0
    for line in sys.stdin:
        event = json.loads(line)
        if event["type"] == kind and all(text(event.get(field)) == value for field, value in wanted):
            count += event["count"] if several else 1
    print(count)


main()
