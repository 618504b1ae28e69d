# SPDX-License-Identifier: MIT
"""work.py NAME N: allocates with automatic garbage collection off; prints what came out.  Needs no
module but built-in ones."""
import gc
import sys


class Point:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


class Node:
    gone = 0

    def __init__(self):
        self.myself = self

    def __del__(self):
        Node.gone += 1


def bare(n):
    """Objects that do nothing."""
    make = type("Bare", (), {"__slots__": ("x",)})
    kept = []
    for _ in range(n):
        kept = [make() for _ in range(100)]
    return len(kept)


def lists(n):
    kept = []
    for i in range(n):
        kept = [[i] for _ in range(100)]
    return len(kept)


def points(n):
    total = 0
    for i in range(n):
        total += sum([p.x * p.y for p in [Point(i, j) for j in range(100)]])
    return total


def trees(n):
    def tree(depth):
        return (tree(depth - 1), depth, tree(depth - 1)) if depth else None

    def size(node):
        return 1 + size(node[0]) + size(node[2]) if node else 0
    return sum(size(tree(7)) for _ in range(n))


def records(n):
    line, total = "name=value;count=17;kind=a;place=here", 0
    for i in range(n):
        rows = [dict([field.split("=") for field in line.split(";")]) for _ in range(10)]
        total += sum(int(row["count"]) for row in rows)
    return total


def switched(n):
    """Collection off, on, off: what is garbage goes when it is on."""
    said = []
    for _ in range(n):
        for switch in (gc.disable, gc.enable):
            switch()
            before, collections = Node.gone, gc.get_stats()[0]["collections"]
            for _ in range(5000):
                Node()
            said.append((gc.isenabled(), Node.gone - before > 4000,
                         gc.get_stats()[0]["collections"] > collections))
        gc.disable()
        gc.collect()
        said.append(Node.gone)
    return said


gc.disable()
print(globals()[sys.argv[1]](int(sys.argv[2])))
