"""What a right ``tree_mode_shard_map`` must show."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from flax import nnx

from shardbook.grading import flax_spies, measures, spies
from shardbook.grading.agreement import Rival, same, same_type, within
from shardbook.grading.cases import Case, Seen
from shardbook.problems.tree_mode_shard_map import TPLinear

EXAMPLE = "tree_mode_shard_map(0.0, normal(4, 6), 16.0)"
BACK = "What comes back"
BOUND = "A bound method, a keyword argument"
JIT = "`jax.jit` around it"
SPEC = "A spec for each Variable"
GIVEN = TPLinear.step.__code__
UNSHARDED = "A layer that was not cut, and an output that says it was"
# What it means if an entry is wrong; the first explanation that fits.
ENTRIES = (
    (0, "y.sum() is not that of the unsharded Linear", UNSHARDED),
    (1, "y[0, -1] is wrong: y's slices have another axis or order", SPEC),
    (3, "calls is wrong: writes were lost, or it was not two steps", JIT),
    (2, "colsum is wrong: writes or columns did not come back", JIT),
    (4, "cols is wrong: shard the kernel, each column on one device", SPEC),
    (5, "n_python is wrong: only graph mode brings it back changed", BACK),
    (6, "last is wrong: only graph mode brings it back", BACK),
)


@contextmanager
def altered() -> Iterator[set[str]]:
    """Alter every TPLinear, and give the modes in which its step ran."""
    modes: set[str] = set()
    write = nnx.Pytree.__setattr__

    # An attempt may have a TPLinear of its own, and may have taken step
    # out of it early. Its __init__ and its step pass here even so.
    def watched(self: Any, name: str, value: Any) -> None:
        if name == "n_python" and value == 6:
            code = getattr(type(self).step, "__code__", None)
            given = code and code.co_names == GIVEN.co_names
            mode = running[-1] if running and given else "neither mode"
            modes.add(mode)
            # A plain attribute can't become a Variable.
            if isinstance(vars(self).get("last"), str):
                del self.last
            if mode == "tree mode":
                self.cols[...] += 100
                self.linear.bias[...] += 1
        write(self, name, value)
        if name == "n_python" and value == 0:
            self.calls[...] += 10
            self.colsum[...] += 1
            self.n_python = 5
            # Not a Variable: it would need a spec.
            self.last = "before"

    with (
        flax_spies.nnx_shard_maps() as running,
        spies.replaced(nnx.Pytree, "__setattr__", watched),
    ):
        yield modes


def modes(seen: Seen) -> str:
    """Describe in which modes the given step ran."""
    return ", ".join(sorted(seen.noted)) or "neither mode"


PLAIN = (EXAMPLE, "tree_mode_shard_map(7.0, normal(2, 5, seed=3), 20.0)")
ALTERED = Case(
    "tree_mode_shard_map(0.0, normal(3, 6), 24.0)",
    "where a TPLinear starts with calls of 10, colsum of 1, n_python of 5 "
    "and a last, and its step adds 100 to cols and 1 to the bias",
    altered,
)
# What was traced before is not entered again: no other call has these
# shapes. Of eight devices, four can share the columns.
ENTERED = Case(
    "tree_mode_shard_map(3, normal(5, 3), 12)",
    under=measures.shard_maps,
    values=True,
)
NAMES = {(3, 12): "the kernel", (12,): "bias or colsum", (5, 3): "x"}
CHECKS = (
    # No two devices can share nine columns evenly.
    same_type(EXAMPLE, "tree_mode_shard_map(1.0, normal(5, 3), 9.0)"),
    *(
        same("values", PLAIN, measures.entry(index), why, read)
        for index, why, read in ENTRIES
    ),
    same(
        "structure",
        ALTERED,
        modes,
        "the step of the given TPLinear did not run under nnx.shard_map",
        "Problem",
        Rival(
            lambda *_: "graph mode",
            "graph mode brings back what step does to Python attributes",
            BACK,
        ),
    ),
    same(
        "structure",
        ALTERED,
        measures.result,
        "the result does not follow the model: read it from there, or "
        "from the second output, after two steps in tree mode",
    ),
    same(
        "placement",
        ENTERED,
        partial(measures.received, NAMES),
        "a device does not receive its columns: in_specs decides which, "
        "on a mesh of the first gcd(features, device_count()) devices",
        SPEC,
        agree=within,
    ),
    same(
        "placement",
        ENTERED,
        partial(measures.held_shards, (5, 12)),
        "y is not left where it was computed, each device with its columns",
        SPEC,
        agree=lambda found, wanted: not found or wanted in found,
    ),
    same(
        "communication",
        EXAMPLE,
        measures.exchanged,
        "the devices exchange more than the number of their columns: leave "
        "each slice of y where it is, and say so in out_specs",
        agree=within,
    ),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("axis sizes that are not evenly|evenly divide", SPEC),
    ("bound methods|unexpected keyword argument", BOUND),
    ("incompatible shapes|contracting dimensions|too long to be", SPEC),
    ("does not match the specs of the input", "A mesh of Explicit axes"),
    ("StateSharding", "`StateSharding` in tree mode"),
    ("prefixes when graph=True", "Which mode is in force"),
    ("unhashable type", "Specs inside the Variables"),
    ("input Variables returned", "An input Variable as the result"),
    ("Duplicate", "An input Variable as the result"),
    ("different trace level|unbound axis name", "The API"),
    ("replication which can't be", BACK),
    ("^AssertionError", "Problem"),
)
DEPRECATED = "What changed since the source"
