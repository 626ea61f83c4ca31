"""What the programs of a call communicate, and the memory they need."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from shardgrade.grading.agreement import HELD, SENT, Limited
from shardgrade.grading.cases import Seen, compiled_programs
from shardgrade.grading.note_programs import note_runs as note_runs
from shardscope.programs.report import Program


def programs(seen: Seen) -> str:
    """Count the programs that a call compiles."""
    return f"{len(compiled_programs(seen.attempt, seen.case))} programs"


def collectives(seen: Seen) -> str:
    """Count the collectives in all that a call compiles."""
    return count_collectives(compiled_programs(seen.attempt, seen.case))


def count_collectives(programs: Iterable[Program]) -> str:
    """Count the collectives in programs, as in "2 all-reduce"."""
    total: Counter[str] = Counter()
    for each in programs:
        total.update(each.collectives)
    words = [f"{number} {kind}" for kind, number in sorted(total.items())]
    return " ".join(words) or "none"


def quantities(programs: Sequence[Program]) -> dict[str, str]:
    """Give what a right verdict compares of the programs of a call."""
    most = max((each.memory.total for each in programs), default=0)
    return {"collectives": count_collectives(programs), HELD: f"{most:,}"}


def sent_by_kind(kinds: str) -> Callable[[Seen], str]:
    """Give the function that counts the bytes that a device sends.

    It counts those of all that a call compiles. The mesh is not known
    there, so groups of devices are told by size.

    Args:
        kinds: A pattern for the kinds of collectives that are counted.
    """

    def count(seen: Seen) -> str:
        total: Counter[str] = Counter()
        for each in compiled_programs(seen.attempt, seen.case):
            for part in each.communication:
                if re.match(kinds, part.kind):
                    words = f"{part.kind} among {part.group} devices"
                    total[words] += part.sent * part.times
        lines = [
            f"{words}: {n:,} bytes" for words, n in sorted(total.items())
        ]
        return "\n".join(lines) or "none"

    return count


def bytes_sent(seen: Seen) -> int:
    """Count the bytes that a device sends in a call, by any collective."""
    return sum(
        each.sent() for each in compiled_programs(seen.attempt, seen.case)
    )


def flops(seen: Seen) -> int:
    """Count the FLOPs of matrix products in all that a call compiles."""
    programs = compiled_programs(seen.attempt, seen.case)
    return sum(each.flops.total for each in programs)


# What a shape, a dtype or a number needs, and a batch doesn't fit in.
LITTLE = 4096


def sends_little(seen: Seen) -> Limited:
    """Count the bytes that a device sends, which may be a few numbers.

    The call was made under :func:`note_runs`.
    """
    count = sum(each.sent() for each in seen.noted)
    return Limited(count, LITTLE, SENT)


def runs_on_mesh(seen: Seen) -> str:
    """Tell whether a call compiles a program for several devices."""
    some = any(map(is_spread, compiled_programs(seen.attempt, seen.case)))
    return f"{'a' if some else 'no'} program that runs on the mesh"


def is_spread(program: Program) -> bool:
    """Tell whether a program runs on more than one device."""
    # What is not laid out yet is on one device.
    return "num_partitions=" in program.text


def argument_bytes(seen: Seen) -> int:
    """Give the most bytes of arguments that a program takes on a device."""
    return max(
        (
            each.memory.arguments
            for each in compiled_programs(seen.attempt, seen.case)
            if is_spread(each)
        ),
        default=0,
    )


def program_bytes(seen: Seen) -> int:
    """Give the most bytes in all that a program needs on a device."""
    programs = compiled_programs(seen.attempt, seen.case)
    return max((each.memory.total for each in programs), default=0)
