"""Say what an attempt's programs do that the solution's don't."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import jax
from jax.sharding import Mesh

from shardgrade.grading.attempt import arguments
from shardgrade.grading.cases import Seen, observe
from shardgrade.grading.note_programs import compile_anew
from shardscope.hlo import bytes_in
from shardscope.lines import name_of, source_of
from shardscope.programs.collective import SENT, Collective, over
from shardscope.programs.compiling import without_cache
from shardscope.programs.groups import axes_along
from shardscope.programs.report import Program

# What is alike in programs, with the size of one.
Kind = tuple[str, int]
# How much of a kind there is, what to call it, and its line in words.
Part = tuple[int, str, str]
NONE: Part = (0, "", "")
# Programs by what was read of them.
Read = defaultdict[str, dict[int, Program]]


def describe_surplus(
    of: Callable[[Seen], Any],
    passes: Callable[[Any], bool],
    mine: Seen,
    ours: Seen,
) -> str:
    """Name what is most of what an attempt has beyond the solution.

    Of what it sends, only what is measured: without it, the measure is
    another one, and best one that passes.

    Args:
        of: What is measured of a call.
        passes: Tells whether a measure is within the limit.
        mine: What came of the attempt.
        ours: What came of the solution.

    Returns:
        Words for the end of a sentence, or nothing where nothing is known.
    """
    # Several processes would wait for each other.
    if jax.process_count() > 1:
        return ""
    # What is made here is kept, so only the measuring is noted below.
    found, _ = of(mine), of(ours)
    parts, right = list_parts(of, mine), list_parts(of, ours)
    more: dict[Kind, tuple[bool, int]] = {}
    for kind, part in parts.items():
        surplus = part[0] - right.get(kind, NONE)[0]
        with note_read(kind):
            without = of(mine)
        if surplus > 0 and (" over " not in kind[0] or without != found):
            more[kind] = passes(without), surplus
    if not more:
        return ""
    most = max(more, key=more.__getitem__)
    (size, words, _), (less, *_) = parts[most], right.get(most, NONE)
    line = lost = ""
    # What is cached may name lines of an older file, and a second call of
    # an attempt may do something else.
    with suppress(Exception), without_cache(), compile_anew():
        anew = observe(replace(mine.attempt, seen={}), mine.case)
        *_, line = list_parts(of, anew)[most]
        lost = describe_lost(of, anew, ours)
    return (
        f". Largest surplus: {words}{line}, {size:,} {most[0].split()[0]}, "
        f"in the solution {f'{less:,}' if less else 'none of that size'}"
        f"{lost}"
    )


def describe_lost(of: Callable[[Seen], Any], mine: Seen, ours: Seen) -> str:
    """Name the first line that loses an axis which the solution keeps."""
    found = []
    for seen in (mine, ours):
        with note_read() as read:
            of(seen)
        found.append(
            [
                each
                for program in read["communication"].values()
                for each in program.lost
                if each.kind == "lost" and not each.backward
            ]
        )
    kept = {(each.axis, each.after) for each in found[1]}
    for each in found[0]:
        if (each.axis, each.after) not in kept:
            own = each.line.startswith(f"{mine.attempt.filename}:")
            where = name_of(each.line, 1 if own else 2)
            return (
                f". {each.axis!r} is lost at {where}, "
                f"{source_of(each.line)}: {each.before} -> {each.after}"
            )
    return ""


@contextmanager
def note_read(hidden: Kind | None = None) -> Iterator[Read]:
    """Note what is read of which programs, and hide collectives."""
    read: Read = defaultdict(dict)

    def look(program: Any, name: str) -> Any:
        value = object.__getattribute__(program, name)
        read[name][id(program)] = program
        if name == "communication":
            return tuple(leave_out(value, hidden))
        return value

    Program.__getattribute__ = look  # type: ignore[method-assign]
    try:
        yield read
    finally:
        del Program.__getattribute__


def kind_of(each: Collective, array: str) -> Kind:
    """Give what is alike of a collective's arrays."""
    return f"bytes {each.kind} over {over(each)}", bytes_in(array)


def leave_out(
    collectives: Iterable[Collective], hidden: Kind | None
) -> Iterator[Collective]:
    """Give collectives without the arrays of a kind."""
    for each in collectives:
        rest = [x for x in each.arrays if kind_of(each, x) != hidden]
        size = sum(map(bytes_in, rest))
        if rest:
            sent = SENT[each.kind](size, each.group)
            yield replace(each, arrays=tuple(rest), bytes=size, sent=sent)


def list_parts(of: Callable[[Seen], Any], seen: Seen) -> dict[Kind, Part]:
    """List what a measure counts, by kind."""
    with note_read() as read:
        of(seen)
    found: dict[Kind, Part] = {}
    named = {seen.attempt.problem: seen.attempt.function}
    calls = arguments(seen.case.call, **named)
    given = [each for positional, _ in calls for each in positional]
    mesh = [dict(x.shape) for x in given if isinstance(x, Mesh)]

    def add(kind: Kind, size: int, words: str, *frames: str) -> None:
        file = seen.attempt.filename
        lines = [each.rpartition(":")[::2] for each in frames]
        own = [f" (line {n})" for path, n in lines if path == file]
        before, _, line = found.get(kind, NONE)
        found[kind] = before + size, words, line or "".join(own[:1])

    for program in read["communication"].values():
        for each in program.communication:
            shown = each
            if mesh and not each.axes:
                permute = each.kind == "collective-permute"
                axes, part, _ = axes_along(each.groups, mesh, permute)
                shown = replace(each, axes=axes, subgroup=part)
            for array in each.arrays:
                kind = kind_of(each, array)
                sent = SENT[each.kind](kind[1], each.group) * each.times
                words = f"{each.kind} of {array} over {over(shown)}"
                add(kind, sent, words, *each.frames)
    by_size = sorted(read["memory"].values(), key=lambda x: x.memory.total)
    for program in by_size[-1:]:
        for held in program.peak.arrays:
            words = f"{held.argument or held.what} {held.array}"
            sort = "argument" if held.argument else "array"
            size = held.bytes // held.count
            add((f"bytes {sort}", size), held.bytes, words, held.line)
    for program in read["flops"].values():
        for (line, direction), flops in program.flops.lines.items():
            words = f"{direction} matrix products".strip()
            add(("FLOPs", flops), flops, words, line)
    return found
