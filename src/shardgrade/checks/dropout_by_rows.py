"""What a right ``dropout_by_rows`` must show."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from shardgrade.grading import measures, same
from shardscope.hlo import Module, Run, arrays_in, bytes_in, runs_of
from shardscope.programs.program import program
from shardscope.programs.report import Program

# How far the share of kept entries may be from 1 - rate, in standard
# deviations; and how alike two masks may be: 8,192 independent entries
# reach 0.05, in all the ways in which one mask can be moved, and more
# entries reach less.
DEVIATIONS, ALIKE = 5, 0.1
# How many times its share of the hashes a device may compute, and how many
# numbers more, for work on the key alone.
SHARE, MORE = 1.5, 1000


@dataclass(frozen=True, eq=False)
class Dropped:
    """What came of dropping entries of an array, with three keys.

    Attributes:
        x: The array.
        rate: The probability of being dropped.
        devices: On how many devices it was.
        results: For each key, ``y``, and the gradient of its sum.
        kept: For each key, where ``y`` is not 0.
        program: What was compiled.
    """

    x: Any
    rate: float
    devices: int
    results: list[dict[str, Any]]
    kept: list[Any]
    program: Program


@same.cache_case
def drop_entries(attempt: same.Attempt, case: same.Case) -> Dropped:
    """Drop entries with three keys, by a function that is compiled once."""
    seen = same.observe(attempt, case)
    _, rate, _, mesh = seen.arguments
    (((x, key), _),) = same.arguments(f"step({case.step})")
    attempt.name_call(case.code, case.given)
    # Each of the others differs in one of the key's two words.
    words = jax.random.key_data(key)
    changed = (words ^ each for each in np.eye(2, dtype=np.uint32))
    keys = (key, *map(jax.random.wrap_key_data, changed))
    with attempt.running():
        found = [seen.result(x, each) for each in keys]
        # What a call has compiled is not compiled again.
        compiled = seen.result.lower(x, key).compile()
    results = [{"y": y, "gradient": gradient} for y, gradient in found]
    kept = [np.float32(each["y"]) != 0 for each in results]
    return Dropped(
        np.float32(x), rate, mesh.size, results, kept, program(compiled)
    )


of_calls = partial(same.measure_made, drop_entries)


def likeness(one: Any, other: Any) -> Any:
    """Give how alike masks are, for each way to move one, cyclically.

    It is 1 if they are the same, and near 0 if they are independent.
    """
    above = [each - each.mean() for each in (one, other)]
    spectra = [np.fft.fftn(each) for each in above]
    products = np.fft.ifftn(spectra[0] * spectra[1].conj()).real
    norms = [np.linalg.norm(each) for each in above]
    return abs(products) / max(norms[0] * norms[1], 1e-9)


def share_kept(made: Dropped) -> str:
    """Tell whether about as many entries are kept as should be."""
    wanted, found = 1 - made.rate, made.kept[0].mean()
    deviation = (wanted * made.rate / made.x.size) ** 0.5
    if abs(found - wanted) <= DEVIATIONS * deviation:
        return "about 1 - rate of the entries are kept"
    inverted = abs(found - made.rate) <= DEVIATIONS * deviation
    which = ": rate is the share to drop" if inverted else ""
    return f"{found:.4f} of the entries are kept{which}"


def scale_entries(made: Dropped) -> Any:
    """Give ``y``, with what would have been kept where it is 0."""
    y = np.float32(made.results[0]["y"])
    return np.where(made.kept[0], y, made.x / (1 - made.rate))


def repeats(made: Dropped, *, blocks: bool) -> str:
    """Tell whether entries are dropped together, in two blocks or in one.

    Args:
        made: What came of dropping.
        blocks: Whether to look for an entry's place in another block, or
            for all others.
    """
    alike = likeness(made.kept[0], made.kept[0])
    alike.flat[0] = 0
    moved = np.argwhere(alike > 0.99 * alike.max())[0]
    y = made.results[0]["y"]
    by_blocks = not (moved % y.sharding.shard_shape(y.shape)).any()
    if alike.max() <= ALIKE or by_blocks != blocks:
        return "entries are not dropped together with others"
    steps = " and ".join(
        f"{min(step, size - step)} "
        f"{'further' if step <= size / 2 else 'back'} "
        f"along dimension {dimension}"
        for dimension, (step, size) in enumerate(
            zip(moved.tolist(), y.shape, strict=True)
        )
        if step
    )
    return f"{alike.max():.0%} alike: an entry, and the one {steps}"


def other_key(made: Dropped) -> str:
    """Tell whether another key gives another mask."""
    first, *others = made.kept
    for other in others:
        alike = likeness(first, other)
        if alike.max() > ALIKE:
            moved = np.argwhere(alike > 0.99 * alike.max())[0].tolist()
            how = f", moved by {moved}," if any(moved) else ""
            return f"the same mask{how} with another key"
    return "another mask with another key"


def compare_copies(made: Dropped) -> str:
    """Tell whether devices with the same slice have the same values."""
    for name, array in made.results[0].items():
        first: dict[str, Any] = {}
        for part in array.addressable_shards:
            mine = np.float32(part.data)
            if (first.setdefault(str(part.index), mine) != mine).any():
                return f"{name} has copies with other entries"
    return "y and the gradient have copies that are the same"


def compare_gradient(made: Dropped) -> str:
    """Tell whether the gradient is that of the mask."""
    gradient = np.float32(made.results[0]["gradient"])
    near = np.isclose(gradient, made.kept[0] / (1 - made.rate), rtol=2**-6)
    if near.all():
        return "1 / (1 - rate) where y is kept, and 0 where it is dropped"
    index = tuple(np.argwhere(~near)[0].tolist())
    fate = "kept" if made.kept[0][index] else "dropped"
    return f"{gradient[index]:.4g} at {[*index]}, where y is {fate}"


def compare_mask_with(
    first: same.Case, name: str = ""
) -> Callable[[same.Seen], str]:
    """Give the function that compares a mask with that of a case."""
    name = name or first.call

    def compare(seen: same.Seen) -> str:
        mine, other = (
            drop_entries(seen.attempt, case).kept[0]
            for case in (seen.case, first)
        )
        count = (mine != other).sum()
        number = f"{count:,} of {mine.size:,}" if count else "no"
        return f"{number} entries differ from those of {name}"

    return compare


def hashes(made: Dropped) -> list[Run]:
    """Find where numbers are hashed: a hash has 20 rounds with a xor."""
    module = Module.of(made.program.text)
    return runs_of(module, lambda each: each.opcode == "xor")


def hashed(made: Dropped) -> int:
    """Count the numbers that xor gives."""
    return sum(
        run.times * bytes_in(*arrays_in(run.instruction.type)) // 4
        for run in hashes(made)
    )


def turns_known(made: Dropped) -> str:
    """Tell whether the program says how often it hashes.

    If the bounds of a loop are computed, a right answer may not be told
    from one that draws the whole mask, row by row.
    """
    if all(run.bounded for run in hashes(made)):
        return "each loop with xor has a known number of turns"
    return "xor in a loop with an unknown number of turns"


def share_hashed(seen: same.Seen) -> str:
    """Compare what a device hashes with its share of the whole."""
    mine, whole = (
        drop_entries(seen.attempt, c) for c in (seen.case, WHOLE)
    )
    own = max(hashed(mine) - MORE, 0)
    times = own * mine.devices / max(hashed(whole), 1)
    share = "times a device's share of the numbers that xor gives"
    if times <= SHARE:
        return f"at most {SHARE} {share}"
    return f"{times:.1f} {share}"


def quantities(attempt: same.Attempt) -> dict[str, str]:
    """Give what the verdict on a right attempt compares."""
    made = drop_entries(attempt, CASES[0])
    return {
        "collectives": measures.count_collectives([made.program]),
        "xor on a device": f"{hashed(made):,}",
        same.HELD: f"{made.program.memory.total:,}",
    }


def drops(
    spec: str,
    x: str = "normal(8, 16, 64)",
    rate: float = 0.25,
    more: str = "",
) -> list[same.Case]:
    """Drop entries of an array, on each mesh."""
    return same.on_meshes(
        f"in_blocks(dropout_by_rows, {rate}, {spec}, {{mesh}}{more})",
        step=f"{x}, random_key(0)",
    )


CASES = drops("P('data', None, 'model')")
EXAMPLE = CASES[0].code
(WHOLE,) = drops("P()")[:1]
# There are copies along "data".
COPIES = drops("P('model')", more=", check_vma=False")[:1]
TUPLE = drops("P(None, ('model', 'data'))")[:1]
# Both sizes are above 256, so that an index of 8 bits begins again, and
# the rate is not near a number of 256ths.
MATRIX = "normal(512, 512)"
NARROW = f"{MATRIX}.astype('bfloat16')"
MATRICES = [
    *drops("P('model', 'data')", NARROW, 0.01)[:1],
    *drops("P(('data', 'model'))", NARROW, 0.01)[-1:],
]
# As the first matrix, but for the dtype.
WIDE = drops("P('model', 'data')", MATRIX, 0.01)[:1]
NOTHING = drops("P('data', 'model')", "normal(16, 64)", 0.0)[:1]
SAMPLES = [*CASES, *MATRICES]
ALL = [*CASES, *COPIES, *TUPLE, WHOLE, *MATRICES, *NOTHING]
ANOTHER = "with the same key and array, other entries are dropped"
AXES = "The index of every axis"
CHECKS = {
    "dtypes": same.contract(
        [*SAMPLES, *NOTHING],
        of_calls(lambda made: measures.types_by_path(made.results[0])),
        "y, or the gradient, has another dtype or shape than x",
    ),
    "independent": same.values(
        SAMPLES,
        of_calls(partial(repeats, blocks=False)),
        "entries are not dropped independently: some share a number",
        read="A single index for all entries",
    ),
    "blocks": same.values(
        SAMPLES,
        of_calls(partial(repeats, blocks=True)),
        "devices draw the same numbers for their blocks: an index within a"
        " block is not one of the whole array. Add axis_index times the"
        " size of a block, along each dimension that is sharded",
        read=AXES,
    ),
    # Before the share, which a mask of few bits misses in bfloat16 alone.
    "mask_by_dtype": same.values(
        WIDE,
        compare_mask_with(MATRICES[0], "the bfloat16 array"),
        "the mask depends on the dtype of x. With the same key, rate and"
        " shape, float32 and bfloat16 must lose the same entries",
    ),
    "probability": same.values(
        [*SAMPLES, *NOTHING],
        of_calls(share_kept),
        "entries are not dropped with the probability rate",
    ),
    "scale": same.values(
        [*SAMPLES, *NOTHING],
        of_calls(scale_entries),
        "a kept entry is not x / (1 - rate)",
        agree=same.Near([2**-6], of_each=True),
    ),
    "key": same.values(
        SAMPLES,
        of_calls(other_key),
        "the mask ignores the key or a part of it, or hardly depends on it",
    ),
    "copies": same.values(
        [*COPIES, WHOLE],
        of_calls(compare_copies),
        "where x is replicated, its copies have different masks",
        read=AXES,
    ),
    "mesh": same.values(
        CASES[1:],
        compare_mask_with(CASES[0]),
        f"{ANOTHER} on another mesh",
        read=AXES,
    ),
    "spec": same.values(
        [*COPIES, *TUPLE, WHOLE],
        compare_mask_with(CASES[0]),
        f"{ANOTHER} for another spec. Of a tuple of axes, the first is the"
        " outer one, as in axis_index",
        read=AXES,
    ),
    "gradient": same.values(
        ALL,
        of_calls(compare_gradient),
        "the gradient does not pass through the mask of y",
    ),
    "exchange": same.communication(
        ALL,
        of_calls(lambda made: measures.count_collectives([made.program])),
        "the devices exchange data, although the mask needs none",
    ),
    "turns": same.placement(
        [*CASES, WHOLE],
        of_calls(turns_known),
        "the grader can't count the hashes in a loop whose number of turns"
        " isn't known at compile time. Use jax.lax.map or jax.lax.scan",
    ),
    "hashes": same.placement(
        CASES,
        share_hashed,
        "a device draws numbers for entries that it doesn't have",
        read="A mask that is cut out of a larger one",
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (("require replication|out_specs|varying|vma", AXES),)
