"""The collectives of a program, summed up in rows or by a key."""

from collections import Counter, defaultdict
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from typing import Any

from shardscope.arrays.paths import pattern_of
from shardscope.hlo import bytes_in
from shardscope.lines import short
from shardscope.programs.collective import (
    Collective,
    arguments_in_words,
    in_words,
)
from shardscope.programs.known import require_known

UNKNOWN = "unknown"


# --- In rows ---


def rows_of(communication: Iterable[Collective]) -> list[tuple[str, int]]:
    """Sum up the collectives that are alike and of the same lines.

    Returns:
        Rows of words, and the bytes that a device sends in a call.
    """
    alike: defaultdict[Any, list[Collective]] = defaultdict(list)
    for each in communication:
        patterns = frozenset(map(pattern_of, each.arguments))
        what = in_words(each, 1, _dtypes(each)), each.asked
        alike[what, patterns, each.direction, each.line].append(each)
    groups: defaultdict[Any, list[Collective]] = defaultdict(list)
    for key, several in alike.items():
        telling = _telling({each.frames for each in several})
        for each in several:
            groups[key, telling[each.frames]].append(each)
    names = short({place for _, frames in groups for place in frames})

    def row(
        frames: tuple[str, ...],
        several: list[Collective],
        every: bool = False,
    ) -> str:
        first, times = several[0], sum(each.times for each in several)
        of = f"{_dtypes(first)} {arguments_in_words(several, every)}"
        words = (
            in_words(first, times, of.strip()),
            "asked for" * first.asked,
            first.direction,
            " < ".join(names[each] for each in frames) or "unknown line",
        )
        return ", ".join(filter(None, words))

    texts = Counter(row(at, several) for (_, at), several in groups.items())
    rows = []
    for (_, frames), several in groups.items():
        # The arguments may be all that tells it from another row.
        every = texts[row(frames, several)] > 1
        sent = sum(each.sent * each.times for each in several)
        rows.append((row(frames, several, every), sent))
    return rows


def _dtypes(each: Collective) -> str:
    """Name the dtypes of what is moved."""
    return " and ".join(dict.fromkeys(x.split("[")[0] for x in each.arrays))


def _telling(
    stacks: Collection[tuple[str, ...]],
) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Give of each stack of frames as many as tell it from the others."""
    shown = {}
    for stack in stacks:
        depth = 1
        for other in stacks:
            pairs = enumerate(zip(stack, other, strict=False), 1)
            # Where one merely ends, jax may have left out the rest.
            apart = (at for at, (one, two) in pairs if one != two)
            depth = max(depth, next(apart, 1))
        shown[stack] = stack[:depth]
    return shown


# --- By a key ---


def bytes_by(
    what: str, communication: Iterable[Collective]
) -> dict[str, int]:
    """Sum up the bytes that a device sends, as ``Program.by`` says."""
    require_known("key", [what], _KEYS)
    sums: Counter[str] = Counter()
    for each in communication:
        for key, sent in _KEYS[what](each):
            sums[key or UNKNOWN] += sent * each.times
    return dict(sums.most_common())


def sent_by_argument(each: Collective) -> Iterator[tuple[str, int]]:
    """Give each array its part of what is sent, which add up exactly."""
    before = size = 0
    for path, array in zip(each.arguments, each.arrays, strict=True):
        size += bytes_in(array)
        until = each.sent * size // max(each.bytes, 1)
        yield path, until - before
        before = until


_KEYS: Mapping[str, Callable[[Collective], Iterable[tuple[str, int]]]] = {
    "argument": sent_by_argument,
    "line": lambda each: [(each.line, each.sent)],
    "frame": lambda each: [(at, each.sent) for at in each.frames or [""]],
    "axis": lambda each: [(" and ".join(each.axes), each.sent)],
}
