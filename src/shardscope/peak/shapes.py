"""The memory that the types in a compiled program take."""

import math
import re
from functools import cache
from itertools import zip_longest
from typing import NamedTuple

from shardscope.hlo import bytes_in

_TOKEN = re.compile(r"[()]|\b([a-z]\w*)\[([\d,<=]*)\](?:\{([^}]*)\})?")
_TILE = re.compile(r"T\(([\d,]*)\)")
_SPACE = re.compile(r"S\((\d+)\)")
_BELOW_A_BYTE = re.compile(r"[su][124]")


class Shape(NamedTuple):
    """An array of a program as it lies in memory.

    Attributes:
        array: Its type, such as ``"f32[8,4]"``.
        bytes: Bytes that it takes, with the padding of its tiles.
        space: Where it lies: 0 is the device's memory. On a TPU, 1 is VMEM
            and 5 is the host.
        layout: The order of its dimensions, and its tiles.
    """

    array: str
    bytes: int
    space: int
    layout: str


# The arrays of a type, nested as its tuples are.
Shapes = Shape | tuple["Shapes", ...]


@cache
def shapes_of(type_: str) -> Shapes:
    """Read a type, such as ``"(f32[8,4]{1,0}, s32[])"``."""
    levels: list[list[Shapes]] = [[]]
    for token in _TOKEN.finditer(type_):
        if token[0] == "(":
            levels.append([])
        elif token[0] == ")":
            inner = tuple(levels.pop())
            levels[-1].append(inner)
        else:
            levels[-1].append(_shape(token[1], token[2], token[3] or ""))
    return levels[0][0]


@cache
def _shape(kind: str, sizes: str, layout: str) -> Shape:
    """Read the type of an array, and how it lies in memory."""
    array = f"{kind}[{sizes.replace('<=', '')}]"
    space = _SPACE.search(layout)
    where = int(space[1]) if space else 0
    if kind in ("token", "opaque"):
        return Shape(array, 0, where, layout)
    shape = [int(size) for size in re.findall(r"\d+", sizes)]
    order, _, rest = layout.partition(":")
    if tile := _TILE.search(rest):
        by = [int(size) for size in reversed(tile[1].split(","))]
        minor = [shape[int(axis)] for axis in re.findall(r"\d+", order)]
        shape = [
            -(-size // per) * per
            for size, per in zip_longest(minor, by, fillvalue=1)
        ]
    count = math.prod(shape)
    # Small types take a byte each, unless the layout packs them.
    packed = "E(" in rest or not _BELOW_A_BYTE.fullmatch(kind)
    size = bytes_in(f"{kind}[{count}]") if packed else count
    return Shape(array, size, where, layout)
