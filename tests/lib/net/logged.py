#!/usr/bin/env python3
"""logged.py TYPE [FIELD=VALUE]...: how many of the events on stdin are of that type and have those fields."""
import json
import sys


def text(value):
    return value if isinstance(value, str) else json.dumps(value)


def main():
    kind, *wanted = sys.argv[1:]
    wanted = [w.split("=", 1) for w in wanted]
    count = 0
    for line in sys.stdin:
        event = json.loads(line)
        count += event["type"] == kind and all(text(event.get(field)) == value for field, value in wanted)
    print(count)


main()
