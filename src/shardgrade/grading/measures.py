"""What can be compared of a call: each function takes what was seen."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.experimental.multihost_utils import process_allgather

from shardgrade.grading._jax_internals import (
    MissingInternal,
    copies_through_host,
)
from shardgrade.grading.agreement import HELD, SENT, Limited
from shardgrade.grading.attempt import Attempt, Crashed
from shardgrade.grading.cases import (
    Case,
    Seen,
    compiled_programs,
    leaves_by_path,
)
from shardgrade.grading.differences import is_array, leaves, show, type_of
from shardgrade.grading.note_programs import (
    compile_and_run,
    note_runs as note_runs,
)
from shardgrade.grading.repeat_step import repeat_step
from shardscope.arrays.shards import describe_holders
from shardscope.programs.report import Program

# --- What a call returned ---


def result(seen: Seen) -> Any:
    """Give what a call returned."""
    return seen.result


def local_slices(seen: Seen) -> dict[str, Any]:
    """Give what this process holds of a returned array, by slice."""
    shape = seen.result.shape
    return {
        str(
            [
                x.indices(n)[:2]
                for x, n in zip(part.index, shape, strict=True)
            ]
        ): (np.asarray(part.data))
        for part in seen.result.addressable_shards
    }


def equal_in_all(seen: Seen) -> str:
    """Tell whether all processes got the same float."""
    # As bytes, because jax cuts a float64 to 32 bits.
    own = np.frombuffer(np.float64(seen.result).tobytes(), np.uint8)
    rows = process_allgather(own).reshape(-1, own.size)
    if len({row.tobytes() for row in rows}) == 1:
        return "the same number in all processes"
    numbers = np.frombuffer(rows.tobytes(), np.float64)
    return "\n".join(
        f"process {index}: {number}" for index, number in enumerate(numbers)
    )


def class_name(seen: Seen) -> str:
    """Name the class of what a call returned; NumPy's as numpy.float32."""
    found = type(seen.result)
    numpy = found.__module__ == "numpy"
    return f"{'numpy.' * numpy}{found.__name__}"


def entry_at(index: int) -> Callable[[Seen], Any]:
    """Give the function that gives one entry of a returned array."""

    def give(seen: Seen) -> Any:
        size = np.size(seen.result)
        return seen.result[index] if size > index else seen.result

    return give


def types(seen: Seen) -> str:
    """Describe the tree that a call returned: paths, dtypes and shapes."""
    return "\n".join(
        f"{path} {type_of(leaf)}".strip()
        for path, leaf in leaves(seen.result).items()
    )


def types_by_path(tree: Any) -> str:
    """Write paths, dtypes and shapes, of Variables or arrays alike."""
    found = sorted(leaves_by_path(tree).items())
    return "\n".join(f"{path} {type_of(leaf)}" for path, leaf in found)


def paths(seen: Seen) -> list[str]:
    """Name the arrays of what a call returned; one that is twice, once."""
    return [*leaves_by_path(seen.result)]


def as_list(seen: Seen) -> Any:
    """Give what a call returned as numbers, in lists if it has axes."""
    return np.asarray(seen.result).tolist()


# --- Where it is ---


def shards(seen: Seen) -> str:
    """Describe which device holds which slice of what a call returned."""
    return "\n".join(map(describe_shards, leaves(seen.result).values()))


def result_layouts(seen: Seen) -> dict[str, str]:
    """Describe the shards of what a call returned, by path."""
    return shards_by_path(seen.result)


def argument_layouts(seen: Seen) -> dict[str, str]:
    """Describe the shards of the first argument, as the call left it."""
    return shards_by_path(seen.arguments[0])


def shards_by_path(tree: Any) -> dict[str, str]:
    """Describe the shards of each array; of one that is twice, once."""
    return {
        path: describe_shards(x) for path, x in leaves_by_path(tree).items()
    }


def describe_shards(array: Any) -> str:
    """Describe which device holds which slice of an array."""
    if isinstance(array, jax.Array | jax.ShapeDtypeStruct):
        if isinstance(array, jax.Array) and array.is_deleted():
            return f"{type_of(array)}, deleted"
        if array.sharding is None:
            return f"{type_of(array)}, on no device"
        # Without the spec, which can be spelled in more ways than one.
        lines = describe_holders(array.sharding, array.shape)
        return "\n".join([type_of(array), *lines])
    if is_array(array):
        return f"{type_of(array)} in NumPy, on no device"
    return f"{type_of(array)}, no array"


@contextmanager
def note_copies() -> Iterator[list[Any]]:
    """Note copies from one device to another, but in jit.

    jax refuses those that are direct, and takes a sharded array through
    the host instead. Any other error is the attempt's own.
    """
    with copies_through_host() as copied:
        try:
            with jax.transfer_guard_device_to_device("disallow_explicit"):
                yield copied
        except Crashed as crash:
            if "Disallowed device-to-device" not in str(crash.error):
                raise
            copied.append(crash)


def describe_copies(seen: Seen) -> str:
    """Tell whether a call under :func:`note_copies` made a copy."""
    some = "a copy" if seen.noted else "no copy"
    return f"{some} from one device to another"


# --- What its programs communicate and hold ---


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


# --- Gradients of a loss ---


@dataclass(frozen=True, eq=False)
class Slopes:
    """The gradients of a loss, and how they were computed.

    Attributes:
        gradients: Those of each argument, by name.
        program: What was compiled.
        over_model: Bytes that a device may send, but over "data" alone.
        over_data: Bytes that it may send over "data" alone.
    """

    gradients: dict[str, Any]
    program: Program
    over_model: int
    over_data: int


def take_gradients(
    attempt: Attempt,
    case: Case,
    given: str,
    call: Callable[..., Any],
    **arrays: Any,
) -> tuple[dict[str, Any], Program]:
    """Take the gradients of the sum of y squared, under jit.

    Args:
        attempt: What ``call`` calls.
        case: The call that a verdict names.
        given: What a verdict says of it.
        call: Returns y for the arrays, by their names.
        **arrays: What to take the gradients of.

    Returns:
        The gradients by the same names, and what was compiled.
    """
    attempt.name_call(case.call, given)

    def loss(arrays: dict[str, Any]) -> Any:
        return (call(**arrays) ** 2).sum()

    return compile_and_run(attempt, jax.grad(loss), arrays)


def sent_over_model(made: Slopes) -> Limited:
    """Count what is sent, but over "data" alone."""
    count = made.program.sent() - made.program.sent("data")
    return Limited(count, made.over_model, SENT)


def sent_over_data(made: Slopes) -> Limited:
    """Count what is sent over "data"."""
    count = made.program.sent("data")
    return Limited(count, made.over_data, SENT)


# --- A step that was returned, call by call ---


def step_results(seen: Seen) -> list[Any]:
    """Give what a step returned, each time that it was called."""
    return repeat_step(seen.attempt, seen.case).results


def step_arguments(seen: Seen) -> dict[str, Any]:
    """Give the arguments of a step as they are after the last call."""
    return leaves_by_path(repeat_step(seen.attempt, seen.case).arguments)


def step_shards(seen: Seen) -> dict[str, str]:
    """Describe where the arguments of a step are after the last call."""
    return shards_by_path(repeat_step(seen.attempt, seen.case).arguments)


def step_kept(*given: str) -> Callable[[Seen], str]:
    """Give the function that names what a step did not donate.

    Args:
        *given: The positions of the arguments that it has to donate.
    """

    def name(seen: Seen) -> str:
        kept = [
            path
            for path in repeat_step(seen.attempt, seen.case).kept
            if path.partition(".")[0] in given
        ]
        return f"still on the devices: {', '.join(kept) or 'nothing'}"

    return name


def step_collectives(seen: Seen) -> str:
    """Count the collectives in what the first call of a step compiles."""
    first, *_ = _step_programs(seen)
    return count_collectives(first)


def step_compilations(seen: Seen) -> str:
    """Say whether the later calls of a step compile anything."""
    _, *later = _step_programs(seen)
    count = sum(map(len, later))
    return f"{count} more programs" if count else "nothing more"


def _step_programs(seen: Seen) -> list[list[Program]]:
    programs = repeat_step(seen.attempt, seen.case).programs
    if isinstance(programs, MissingInternal):
        raise programs
    return programs


# --- How a call is refused ---


@contextmanager
def note_errors() -> Iterator[list[BaseException]]:
    """Take the error that a call raises for its answer."""
    raised: list[BaseException] = []
    try:
        # jax 0.12.0 prints the place of some errors on its own. In a file,
        # for an attempt can ask for what only a file has, such as a buffer.
        with (
            open(os.devnull, "w", encoding="utf-8") as nowhere,
            redirect_stdout(nowhere),
        ):
            yield raised
    except Crashed as crash:
        if crash.error is None:
            raise
        raised.append(crash.error)


def refusal(
    *words: str,
    kind: type[Exception] = ValueError,
    never: Iterable[str] = (),
) -> Callable[[Seen], str]:
    """Give the function that describes how a call is refused.

    Args:
        *words: What the message must name.
        kind: The class that the error must have.
        never: What it must not name.

    Returns:
        A function of a call that was made under :func:`note_errors`.
    """
    none_of = tuple(never)

    def describe(seen: Seen) -> str:
        if not seen.noted:
            arrays = any(map(is_array, leaves(seen.result).values()))
            got = types(seen) if arrays else show(seen.result)
            return f"no error, but {', '.join(got.splitlines())}"
        (error,) = seen.noted
        text = str(error)
        named = all(re.search(_whole(word), text) for word in words)
        right = isinstance(error, kind) and named
        if right and not any(w in text for w in none_of):
            which = f" that names {', '.join(words)}" if words else ""
            if none_of:
                which += f", and not {', '.join(none_of)}"
            article = "an" if kind.__name__[0] in "AEIO" else "a"
            return f"{article} {kind.__name__}{which}"
        return f"{type(error).__name__}: {error}"

    return describe


def _whole(word: str) -> str:
    """Give the pattern of a word; of a number, not as a part of another."""
    edge = r"\d" if word.isdigit() else "(?!)"
    return f"(?<!{edge}){re.escape(word)}(?!{edge})"
