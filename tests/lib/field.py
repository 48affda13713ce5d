#!/usr/bin/env python3
"""field.py TYPE FIELD: of the first event of that type on stdin, one field as text; TYPE "-": of the one object there.
FIELD is a.b.c; "absent" is printed where it is not there; lists and objects as JSON."""
import json
import sys


def find(value, path):
    for name in path.split("."):
        if isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict) and name in value:
            value = value[name]
        else:
            return "absent"
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True)


def main():
    kind, path = sys.argv[1:]
    if kind == "-":
        print(find(json.load(sys.stdin), path))
        return
    for line in sys.stdin:
        event = json.loads(line)
        if event["type"] == kind:
            print(find(event, path))
            return
    print("absent")


main()
