"""How XLA packs the arrays of a program into memory.

What a program takes and returns has its own memory for all of a call. XLA
uses the memory of a result for other arrays before the result is there,
and writes arrays over others that are needed for the last time. It then
packs what is left, which may leave gaps; these are not reckoned here.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from itertools import accumulate

from shardscope.hlo import Module
from shardscope.peak.inplace import PAIR, numbers_in
from shardscope.peak.liveness import Value, Walk, leaves, value_at

_DONATED = re.compile(r"input_output_alias=\{(.*?\)) \}")
# From start to end, both included.
Span = tuple[int, int]


class Buffer:
    """A part of the memory, and the arrays that are in it by turns.

    Attributes:
        bytes: Its size.
        values: The arrays.
        spans: When it is in use, in order.
        parameter: The number of the parameter that it holds, or None.
        result: The first of the values that the program returns in it, or
            None.
    """

    def __init__(self, values: Iterable[Value]) -> None:
        self.values = list(values)
        self.bytes = max(each.shape.bytes for each in self.values)
        self.spans = _merged((one.start, one.end) for one in self.values)
        self.parameter: int | None = None
        self.result: Value | None = None

    @property
    def stays(self) -> bool:
        """Whether it is there for all of a call."""
        return self.result is not None or self.parameter is not None

    def takes(self, other: "Buffer") -> None:
        """Let another's arrays be in this one."""
        self.values += other.values
        self.spans = _merged([*self.spans, *other.spans])

    def overlaps(self, other: "Buffer") -> list[Span]:
        """Give the times at which both are in use."""
        found = []
        for start, end in self.spans:
            at = bisect_left(other.spans, start, key=lambda span: span[1])
            for after, until in other.spans[at:]:
                if after > end:
                    break
                found.append((max(start, after), min(end, until)))
        return found


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Join the spans that overlap."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


class Packing:
    """The memory of a device in a call.

    Args:
        module: The program.

    Attributes:
        buffers: Its parts.
    """

    def __init__(self, module: Module) -> None:
        walk = Walk(module)
        _donate(walk, module.head)
        for value in leaves(walk.result):
            value.end = walk.end
        together: defaultdict[Value, list[Value]] = defaultdict(list)
        for value in walk.values:
            # Constants have memory of their own.
            if value.shape.space == 0 and value.maker.opcode != "constant":
                together[value.first].append(value)
        self._home = {
            value: buffer
            for values in together.values()
            for buffer in [Buffer(values)]
            for value in values
        }
        # XLA writes over an operand only what need not lie elsewhere.
        self._alone = {
            values[0] for values in together.values() if len(values) == 1
        }
        for number, tree in walk.parameters.items():
            for value in leaves(tree):
                if value in self._home:
                    self._home[value].parameter = number
        for value in leaves(walk.result):
            if value in self._home:
                self._home[value].result = value.first
        self._touching: defaultdict[int, list[tuple[Value, Value]]]
        self._touching = defaultdict(list)
        for old, new in walk.reusable:
            if old.end == new.start and old.maker.opcode != "constant":
                self._touching[old.end].append((old, new))
        # The TPU's compiler leaves the memory of results to them.
        if not any("T(" in each.shape.layout for each in self._home):
            self._use_results()
        self._write_over()
        self.buffers = list(dict.fromkeys(self._home.values()))

    def peak(self) -> tuple[list[Buffer], int]:
        """Give what is in use when most bytes are, and the time."""
        changes: defaultdict[int, int] = defaultdict(int, {0: 0})
        for buffer in self.buffers:
            for start, end in () if buffer.stays else buffer.spans:
                changes[start] += buffer.bytes
                changes[end + 1] -= buffer.bytes
        times = sorted(changes)
        in_use = list(accumulate(changes[time] for time in times))
        at = times[in_use.index(max(in_use))]
        return [
            each
            for each in self.buffers
            if each.stays
            or any(start <= at <= end for start, end in each.spans)
        ], at

    def _use_results(self) -> None:
        """Put what fits into the memory of results that come later."""
        every = set(self._home.values())
        results = [
            each
            for each in every
            if each.result is not None and each.parameter is None
        ]
        results.sort(key=lambda each: (each.bytes, each.spans))
        others = [each for each in every if not each.stays]
        others.sort(key=lambda each: (-each.bytes, each.spans))
        for buffer in others:
            for result in results:
                if result.bytes >= buffer.bytes and self._fit(
                    result, buffer
                ):
                    self._put(buffer, result)
                    break

    def _write_over(self) -> None:
        """Put arrays where others are that they are computed from."""
        for time in sorted(self._touching):
            for old, new in self._touching[time]:
                one, other = self._home.get(old), self._home.get(new)
                if (
                    one is not None
                    and other is not None
                    and one is not other
                    and new in self._alone
                    and not (one.stays or other.stays)
                    and self._fit(one, other)
                ):
                    self._put(other, one)

    def _fit(self, one: Buffer, other: Buffer) -> bool:
        """Tell whether two are never in use at the same time."""
        pair = {one, other}
        return all(
            start == end
            and any(
                {self._home.get(old), self._home.get(new)} == pair
                for old, new in self._touching[start]
            )
            for start, end in one.overlaps(other)
        )

    def _put(self, buffer: Buffer, into: Buffer) -> None:
        for value in buffer.values:
            self._home[value] = into
        into.takes(buffer)


def _donate(walk: Walk, head: str) -> None:
    """Put results into the memory of the arguments donated for them."""
    donated = _DONATED.search(head.partition("\n")[0])
    for result, number, place in (
        PAIR.findall(donated[1]) if donated else ()
    ):
        given = value_at(walk.parameters[int(number)], numbers_in(place))
        made = value_at(walk.result, numbers_in(result))
        if given and made:
            made.join(given)
