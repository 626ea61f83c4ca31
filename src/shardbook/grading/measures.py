"""What can be compared of a call: each function takes what was seen."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding

from shardbook.grading import spies
from shardbook.grading._jax_internals import (
    MissingInternal,
    shard_maps as shard_maps,
)
from shardbook.grading.attempt import Crashed
from shardbook.grading.cases import Seen, by_path, compiled, repeated
from shardbook.tools.draw import draw
from shardbook.tools.layout import layout
from shardbook.tools.program import Program

# How near two numbers must be to be the same.
NEAR: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4, "equal_nan": True}


def result(seen: Seen) -> Any:
    """Give what a call returned."""
    return seen.result


def kind(seen: Seen) -> str:
    """Name the class of what a call returned."""
    return type(seen.result).__name__


def structure(seen: Seen) -> str:
    """Describe the structure of the tree that a call returned."""
    return str(jax.tree.structure(seen.result))


def entry(index: int) -> Callable[[Seen], Any]:
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


def shards(seen: Seen) -> str:
    """Describe which device holds which slice of what a call returned."""
    return "\n".join(map(describe_shards, leaves(seen.result).values()))


def paths(seen: Seen) -> list[str]:
    """Name the arrays of what a call returned; one that is twice, once."""
    return [*by_path(seen.result)]


def as_list(seen: Seen) -> Any:
    """Give what a call returned as numbers, in lists if it has axes."""
    return np.asarray(seen.result).tolist()


def layouts(seen: Seen) -> dict[str, str]:
    """Describe the shards of what a call returned, by path."""
    return shards_by_path(seen.result)


def argument_layouts(seen: Seen) -> dict[str, str]:
    """Describe the shards of the first argument, as the call left it."""
    return shards_by_path(seen.arguments[0])


def programs(seen: Seen) -> str:
    """Count the programs that a call compiles."""
    return f"{len(compiled(seen.attempt, seen.case))} programs"


def collectives(seen: Seen) -> str:
    """Count the collectives in all that a call compiles."""
    return counted(compiled(seen.attempt, seen.case))


def step_results(seen: Seen) -> list[Any]:
    """Give what a step returned, each time that it was called."""
    return repeated(seen.attempt, seen.case).results


def first_result(seen: Seen) -> Any:
    """Give what a step returned as it was called first."""
    return step_results(seen)[0]


def step_arguments(seen: Seen) -> dict[str, Any]:
    """Give the arguments of a step as they are after the last call."""
    return by_path(repeated(seen.attempt, seen.case).arguments)


def step_shards(seen: Seen) -> dict[str, str]:
    """Describe where the arguments of a step are after the last call."""
    return shards_by_path(repeated(seen.attempt, seen.case).arguments)


def last_result(seen: Seen) -> Any:
    """Give what a step returned as it was called last."""
    return step_results(seen)[-1]


def step_kept(*given: str) -> Callable[[Seen], str]:
    """Give the function that names what a step did not donate.

    Args:
        *given: The positions of the arguments that it has to donate.
    """

    def name(seen: Seen) -> str:
        kept = [
            path
            for path in repeated(seen.attempt, seen.case).kept
            if path.partition(".")[0] in given
        ]
        return f"still on the devices: {', '.join(kept) or 'nothing'}"

    return name


def step_collectives(seen: Seen) -> str:
    """Count the collectives in what the first call of a step compiles."""
    first, *_ = _step_programs(seen)
    return counted(first)


def step_compilations(seen: Seen) -> str:
    """Say whether the later calls of a step compile anything."""
    _, *later = _step_programs(seen)
    count = sum(map(len, later))
    return f"{count} more programs" if count else "nothing more"


def _step_programs(seen: Seen) -> list[list[Program]]:
    programs = repeated(seen.attempt, seen.case).programs
    if isinstance(programs, MissingInternal):
        raise programs
    return programs


def on_mesh(seen: Seen) -> str:
    """Tell whether a program runs on more than one device."""
    some = any(map(_is_spread, compiled(seen.attempt, seen.case)))
    return f"{'a' if some else 'no'} program that runs on the mesh"


def _is_spread(program: Program) -> bool:
    # What is not laid out yet is on one device.
    return "num_partitions=" in program.text


def argument_bytes(seen: Seen) -> int:
    """Give the most bytes of arguments that a program takes on a device."""
    return max(
        (
            each.memory.arguments
            for each in compiled(seen.attempt, seen.case)
            if _is_spread(each)
        ),
        default=0,
    )


def program_bytes(seen: Seen) -> int:
    """Give the most bytes in all that a program needs on a device."""
    programs = compiled(seen.attempt, seen.case)
    return max((each.memory.total for each in programs), default=0)


def made_whole(seen: Seen) -> str:
    """Say whether a program makes more on a device than its shards."""
    shards = layout(seen.result).bytes_per_device
    # The compiler adds some bytes of its own to each result.
    if any(
        each.memory.results > 1.5 * shards
        for each in compiled(seen.attempt, seen.case)
    ):
        return "more than the shards of a device"
    return "no more"


def constants(seen: Seen) -> str:
    """Describe the arrays that are constants of a program."""
    found = [
        array
        for each in compiled(seen.attempt, seen.case)
        if _is_spread(each)
        # Those of the reader: the compiler makes some of integers.
        for array in re.findall(
            r"= (b?f\d+\[\d[\d,]*\])\S* constant\(", each.text
        )
    ]
    return "\n".join(dict.fromkeys(found)) or "no arrays"


def sent(kinds: str, seen: Seen) -> str:
    """Count the bytes that a device sends in all that a call compiles.

    The mesh is not known here, so groups of devices are told by size.

    Args:
        kinds: A pattern for the kinds of collectives that are counted.
        seen: The call.
    """
    total: Counter[str] = Counter()
    for each in compiled(seen.attempt, seen.case):
        for part in each.communication:
            if re.match(kinds, part.kind):
                words = f"{part.kind} among {part.group} devices"
                total[words] += part.sent * part.times
    lines = [f"{words}: {n:,} bytes" for words, n in sorted(total.items())]
    return "\n".join(lines) or "none"


@contextmanager
def errors() -> Iterator[list[BaseException]]:
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
        A function of a call that was made under :func:`errors`.
    """
    none_of = tuple(never)

    def describe(seen: Seen) -> str:
        if not seen.noted:
            return f"no error, but {show(seen.result)}"
        (error,) = seen.noted
        text = str(error)
        right = isinstance(error, kind) and all(w in text for w in words)
        if right and not any(w in text for w in none_of):
            named = f" that names {', '.join(words)}" if words else ""
            if none_of:
                named += f", and not {', '.join(none_of)}"
            article = "an" if kind.__name__[0] in "AEIO" else "a"
            return f"{article} {kind.__name__}{named}"
        return f"{type(error).__name__}: {error}"

    return describe


@contextmanager
def guarded_copies() -> Iterator[list[BaseException]]:
    """Note when jax refuses a copy from one device to another, but in jit.

    Any other error is the attempt's own.
    """
    refused: list[BaseException] = []
    try:
        with jax.transfer_guard_device_to_device("disallow_explicit"):
            yield refused
    except Crashed as crash:
        if "Disallowed device-to-device" not in str(crash.error):
            raise
        refused.append(crash)


def copies(seen: Seen) -> str:
    """Tell whether a call under :func:`guarded_copies` made a copy."""
    some = "a copy" if seen.noted else "no copy"
    return f"{some} from one device to another"


@contextmanager
def orbax_reads() -> Iterator[list[str]]:
    """Give a line for each array that Orbax restores onto devices."""
    # It takes a second to import, and most problems do not need it.
    import orbax.checkpoint as ocp

    lines: list[str] = []

    def note(_: Any, caller: Any, restored: Any) -> None:
        for leaf in leaves(restored).values():
            if isinstance(leaf, jax.Array):
                shard = leaf.sharding.shard_shape(leaf.shape)
                lines.append(f"{type_of(leaf)}: a device gets {[*shard]}")

    with spies.returned(note, ocp.Checkpointer.restore):
        yield lines


def noted_lines(seen: Seen) -> str:
    """Give the lines that a context has noted, each once."""
    return "\n".join(dict.fromkeys(seen.noted))


def received(names: dict[tuple[int, ...], str], seen: Seen) -> str:
    """Describe what each device receives in the shard_maps of a call.

    Args:
        names: The names of arguments, by shape; others are left out.
        seen: The call, under :func:`shard_maps`.

    Returns:
        The axes and devices of each mesh, and the shape of each shard.
    """
    lines = []
    for mesh, avals, specs in seen.noted:
        lines.append(f"axes {dict(mesh.shape)}")
        # What jax.set_mesh has set may be given by its axes alone.
        if isinstance(mesh, Mesh):
            ids = [each.id for each in mesh.devices.flat]
            lines.append(f"devices {ids}")
        for aval, spec in zip(avals, specs, strict=True):
            if aval.shape in names:
                shard = NamedSharding(mesh, spec).shard_shape(aval.shape)
                lines.append(f"{shard} of {names[aval.shape]}")
    return "\n".join(dict.fromkeys(lines))


def exchanged(seen: Seen) -> str:
    """Describe what the devices exchange inside the shard_maps of a call.

    The compiler adds collectives of its own outside of them. There is no
    public way to tell these apart: the metadata of an instruction has the
    path of transformations that it comes from, with ``/shard_map/``.
    """
    lines = [
        f"{each.kind} of {array}"
        for program in compiled(seen.attempt, seen.case)
        for each in program.communication
        if "/shard_map/" in each.op_name
        for array in each.arrays
    ]
    return "\n".join(dict.fromkeys(lines))


def held_shards(shape: tuple[int, ...], seen: Seen) -> str:
    """Describe where the arrays of a shape are that an attempt held."""
    found = [
        describe_shards(each)
        for each in seen.values
        if isinstance(each, jax.Array)
        and not isinstance(each, jax.core.Tracer)
        and each.shape == shape
    ]
    return "\n".join(dict.fromkeys(found))


def counted(programs: Iterable[Program]) -> str:
    """Count the collectives in programs, as in "2 all-reduce"."""
    total: Counter[str] = Counter()
    for each in programs:
        total.update(each.collectives)
    words = [f"{number} {kind}" for kind, number in sorted(total.items())]
    return " ".join(words) or "none"


def is_array(value: Any) -> bool:
    """Tell whether a value is an array of JAX or of NumPy."""
    return isinstance(value, jax.Array | np.ndarray)


def leaves(tree: Any) -> dict[str, Any]:
    """Give the leaves of a tree by their paths."""
    found = jax.tree_util.tree_leaves_with_path(
        tree, is_leaf=lambda node: node is None
    )
    return {jax.tree_util.keystr(path): leaf for path, leaf in found}


def numbers(value: Any) -> Any:
    """Give a random key as its numbers, and anything else as it is."""
    if isinstance(value, jax.Array) and jnp.issubdtype(
        value.dtype, jax.dtypes.prng_key
    ):
        return jax.random.key_data(value)
    return value


def type_of(value: Any) -> str:
    """Write dtype and shape of an array, or the type of anything else."""
    if is_array(value) or isinstance(value, jax.ShapeDtypeStruct):
        return f"{value.dtype}[{','.join(map(str, value.shape))}]"
    return "None" if value is None else type(value).__name__


def show(value: Any) -> str:
    """Write a value so that it can be compared with another by eye."""
    if is_array(value):
        array = np.asarray(numbers(value))
        if array.size > 16:
            return f"{type_of(value)} {array.ravel()[:8]} ..."
        with np.printoptions(precision=6, suppress=True, linewidth=70):
            return f"{type_of(value)} {array}"
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) < 400 else f"{text[:400]} ..."


def show_both(got: Any, expected: Any) -> tuple[str, str]:
    """Write two values; of two arrays, the first entries that differ."""
    words = show(got), show(expected)
    if not (is_array(got) and is_array(expected)):
        return words
    if got.shape != expected.shape or expected.ndim == 0:
        return words
    got, expected = numbers(got), numbers(expected)
    wrong = ~np.isclose(got, expected, **NEAR)
    if not wrong.any():
        return words
    index = tuple(np.argwhere(wrong)[0].tolist())
    left, right = (
        f"{type_of(each)} at {[*index]}: {show_number(each[index])}"
        for each in (got, expected)
    )
    return f"{left} ({wrong.sum()} of {wrong.size} entries differ)", right


def show_number(value: Any) -> str:
    """Write a number as people do; anything else as Python does."""
    value = numbers(value)
    number = value.tolist() if hasattr(value, "tolist") else value
    return f"{number:.6g}" if isinstance(number, float) else repr(number)


def shards_by_path(tree: Any) -> dict[str, str]:
    """Describe the shards of each array; of one that is twice, once."""
    return {path: describe_shards(x) for path, x in by_path(tree).items()}


def describe_shards(array: Any) -> str:
    """Describe which device holds which slice of an array."""
    if isinstance(array, jax.Array | jax.ShapeDtypeStruct):
        if isinstance(array, jax.Array) and array.is_deleted():
            return f"{type_of(array)}, deleted"
        # Without the spec, which can be spelled in more ways than one.
        _, *lines = repr(draw(array)).splitlines()
        return "\n".join([type_of(array), *lines])
    if is_array(array):
        return f"{type_of(array)} in NumPy, on no device"
    return f"{type_of(array)}, no array"
