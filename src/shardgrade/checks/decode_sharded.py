"""What a right ``decode_sharded`` must show."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from shardgrade.grading import measures, same
from shardscope.programs.report import Program

# Neither in order nor from 0, and up to the last one of the cache, which is
# so long that a copied kernel adds little to the temporaries, and has not
# the page's length.
LENGTH, POSITIONS = 100, (3, 4, 99, 5, 0)
# On the first mesh, a shard of k's kernel then has as many bytes as one of
# the output, which takes the place of any array that is donated with it.
BATCH = 16
OTHERS = f"call 6 (position {POSITIONS[0]}, other params, another cache)"
TURNS = [f"call {n} (position {at})" for n, at in enumerate(POSITIONS, 1)]
TURNS.append(OTHERS)
# Bytes that a device may send beside those of the output.
SCALARS = 64
# How many times its shard of the cache a device's temporaries may be.
CACHES = 3


@dataclass(eq=False)
class Decoded:
    """What the calls of a step did, each with the cache before it.

    Attributes:
        size: Bytes of the cache on a device.
        model: The size of "model".
        data: Where each device is along "data".
        types: The dtypes and shapes that the last call returned.
        outputs: The output of each call.
        caches: Both caches, after all calls.
        lost: Other arguments of a call that it has deleted.
        layouts: Which device holds which slice, by call and path.
        kept: Arrays of old caches that are still in memory.
        moved: Arrays of new caches that are not in the old buffers.
        programs: What each call compiled.
    """

    size: int
    model: int
    data: list[int]
    types: str = ""
    outputs: dict[str, Any] = field(default_factory=dict)
    caches: dict[str, Any] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    layouts: dict[str, dict[str, str]] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    programs: list[list[Program]] = field(default_factory=list)


def buffers(array: Any) -> list[int]:
    """Give where the shards of an array are in memory."""
    if not isinstance(array, jax.Array):
        return []
    return [
        x.data.unsafe_buffer_pointer() for x in array.addressable_shards
    ]


@same.cache_case
def decoded(attempt: same.Attempt, case: same.Case) -> Decoded:
    """Call the step for some tokens, each with the cache before it.

    The last call takes the first token, other params and another cache.
    """
    step = same.observe(attempt, case).result
    (params, cache, *token), (*more, new_params, new_cache) = (
        same.arguments(f"step({code})")[0][0]
        for code in (case.step, case.then)
    )
    attempt.name_call(case.code, case.given)
    pairs = [*token, *more, *token]
    mesh = cache["k"].sharding.mesh
    along = np.indices(mesh.devices.shape)[mesh.axis_names.index("data")]
    made = Decoded(
        sum(a.addressable_shards[0].data.nbytes for a in cache.values()),
        mesh.shape["model"],
        along.ravel().tolist(),
    )
    with same.note_calls(attempt) as call:
        made.programs = call.programs
        for turn, name in enumerate(TURNS):
            x, given = pairs[2 * turn : 2 * turn + 2]
            if name == OTHERS:
                params, cache = new_params, new_cache
            old, like = (
                same.leaves_by_path(cache),
                measures.types_by_path((x, cache)),
            )
            before = {path: buffers(each) for path, each in old.items()}
            result = call(step, params, cache, x, given)
            made.types = measures.types_by_path(result)
            others = {"params": params, "x": x}
            made.lost = same.paths_by_deletion(
                same.leaves_by_path(others), deleted=True
            )
            if made.types != like or made.lost:
                # There can be no next call.
                break
            y, cache = result
            same.require_alive(cache)
            made.outputs[name] = jax.device_get(y)
            which = OTHERS if name == OTHERS else "calls 1 to 5"
            made.caches[which] = jax.device_get(cache)
            made.layouts[name] = measures.shards_by_path(
                {"y": y, "cache": cache}
            )
            made.kept |= set(same.paths_by_deletion(old, deleted=False))
            made.moved |= {
                path
                for path, each in same.leaves_by_path(cache).items()
                if buffers(each) != before[path]
            }
    return made


of_calls = partial(same.measure_made, decoded)


def kind(seen: same.Seen) -> str:
    """Name what was returned."""
    found = seen.result
    return "a function" if callable(found) else same.type_of(found)


def list_names(paths: set[str], where: str) -> str:
    """Name arrays of a cache, if there are any."""
    return f"{where}: {', '.join(sorted(paths)) or 'nothing'}"


def select_layouts(
    made: Decoded, *, output: bool
) -> dict[str, dict[str, str]]:
    """Give where the output is, call by call, or where the caches are."""
    return {
        call: {p: each for p, each in held.items() if (p == "y") == output}
        for call, held in made.layouts.items()
    }


def compiled_later(made: Decoded) -> str:
    """Count what the calls after the first compile."""
    count = sum(map(len, made.programs[1:]))
    return f"programs in {len(made.programs) - 1} later calls: {count}"


def compiled_again(made: Decoded) -> str:
    """Count what the last call compiles, which repeats the first."""
    return f"programs in a call like the first: {len(made.programs[-1])}"


def count_sent(made: Decoded) -> int:
    """Count the bytes that a device sends for a token."""
    return sum(each.sent() for each in made.programs[0])


def count_sent_over_data(made: Decoded) -> same.Limited:
    """Count those that it sends to devices with other sequences."""
    count = sum(
        part.sent * part.times
        for each in made.programs[0]
        for part in each.communication
        if any(len({made.data[i] for i in g}) > 1 for g in part.groups)
    )
    return same.Limited(count, SCALARS, same.SENT)


def sums(made: Decoded) -> str:
    """Say whether programs send anything, where "model" is split."""
    some = made.model == 1 or count_sent(made) > 0
    return f"a device sends {'something' if some else 'nothing'}"


def count_temporaries(made: Decoded) -> same.Limited:
    """Count the bytes of a device's temporaries."""
    most = max((p.memory.temporaries for p in made.programs[0]), default=0)
    limit = CACHES * made.size
    return same.Limited(most, limit, "bytes of temporaries on a device")


def decode_on(
    mesh: str, heads: int, kv_heads: int, position: str
) -> same.Case:
    """Decode some tokens on a mesh, with positions of a kind."""
    params = f"attention_params(24, {heads}, {kv_heads}, 8, {mesh}"
    cache = f"kv_cache({BATCH}, {LENGTH}, {kv_heads}, 8, {mesh}"
    first, *others = (
        f"laid_out({'10 * ' * (each == POSITIONS[-1])}"
        f"normal({BATCH}, 24, seed={seed}), P('data'), {mesh}), "
        + position.format(each)
        for seed, each in enumerate(POSITIONS)
    )
    later = ", ".join(map(str, POSITIONS[1:]))
    return same.Case(
        f"decode_sharded({mesh})",
        step=f"{params}), {cache}), {first}",
        then=", ".join(
            [*others, f"{params}, seed=7)", f"{cache}, {POSITIONS[0]})"]
        ),
        given="where the next calls take the cache of the one before, "
        "another x, which is ten times as large in the last, and "
        f"{later} as {position.format('position')}, and one more call has "
        "the first x and position, other params, and another cache, with "
        "1e30 at all later positions",
    )


COUNT = jax.device_count()
INT, ARRAY = "{}", "int32({})"
HALF = max(1, COUNT // 2)
SIZES = f"{COUNT // HALF}, {HALF}"
CASES = [
    decode_on(f"mesh_of({SIZES})", 4 * HALF, HALF, INT),
    decode_on(f"mesh_of({COUNT}, 1)", 12, 3, ARRAY),
    decode_on(
        f"mesh_of({SIZES}, names=('model', 'data'))", COUNT, COUNT, INT
    ),
]
# Some take the axes by their order, not by name.
CASES[2] = replace(
    CASES[2],
    given=f'on a mesh of "model" and then "data", {CASES[2].given}',
)
EXAMPLE = CASES[0].code
OTHER = (
    "the step does not return an output like x and a cache like the old one"
)
WRITE = (
    "after all calls, a cache is not what the step was given at first, "
    "with the key and value of each token, by the params of its call, at "
    "its position"
)
WRONG = (
    "an output is not attention to the positions from 0 to the token's, "
    "where query head i uses key-value head i // (heads / kv_heads) and "
    "scores are divided by the root of head_dim"
)
REMADE = (
    "a call that repeats another one compiles again: make the jitted step "
    "once, in decode_sharded"
)
DATA = (
    'over "data", devices exchange bytes, but a token needs none: each '
    "sequence stays on the devices of its cache"
)
NOTHING = (
    "no program of a call sends anything, but the sum of the output needs "
    "it: let each device compute the terms of its own heads, and add them "
    "up under jit, not on the host or on a single device"
)
LARGE = (
    "the temporaries take more than three times the cache: do not repeat "
    "or copy keys and values"
)
CHECKS = {
    "no_step": same.contract(CASES, kind, "this is not a function"),
    "other": same.contract(CASES, of_calls(lambda made: made.types), OTHER),
    "lost": same.contract(
        CASES,
        of_calls(lambda made: list_names(set(made.lost), "deleted")),
        "the step deletes params or x: donate the cache alone",
        read="The API",
    ),
    "write": same.values(CASES, of_calls(lambda made: made.caches), WRITE),
    "wrong": same.values(CASES, of_calls(lambda made: made.outputs), WRONG),
    # First, because another sharding compiles another program.
    "layout": same.placement(
        CASES,
        of_calls(partial(select_layouts, output=True)),
        "the output is not sharded as P('data')",
        read="The API",
    ),
    "layouts": same.placement(
        CASES,
        of_calls(partial(select_layouts, output=False)),
        "the new cache is not sharded like the old one: give jit "
        "out_shardings",
        read="The API",
    ),
    "remade": same.structure(CASES, of_calls(compiled_again), REMADE),
    "again": same.structure(
        CASES,
        of_calls(compiled_later),
        "the step is compiled again for a later position: positions must "
        "not be static, shapes must not depend on them, and the new cache "
        "must be of the same kind as the old, a dict like it",
        read="A position for each program",
    ),
    "kept": same.placement(
        CASES,
        of_calls(lambda made: list_names(made.kept, "still in memory")),
        "the old cache stays in memory: donate it",
        read="The API",
    ),
    "moved": same.placement(
        CASES,
        of_calls(lambda made: list_names(made.moved, "in other buffers")),
        "the new cache is not in the buffers of the old one",
        read="The API",
    ),
    "data": same.communication(
        CASES, of_calls(count_sent_over_data), DATA, read="On eight devices"
    ),
    "more": same.communication(
        CASES,
        of_calls(count_sent),
        "for a token, devices exchange more than one sum of their terms "
        "of the output",
        read="On eight devices",
        agree=same.AtMost(1, same.SENT, more=SCALARS),
    ),
    "nothing": same.communication(CASES, of_calls(sums), NOTHING),
    "large": same.memory(CASES, of_calls(count_temporaries), LARGE),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("[Nn]on-hashable|unhashable", "A position for each program"),
    ("[Tt]racer|[Cc]oncret|[Ii]ndex", "A position for each program"),
)
