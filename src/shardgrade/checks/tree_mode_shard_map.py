"""What a right ``tree_mode_shard_map`` must show."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
from flax import nnx
from jax.sharding import Mesh, NamedSharding

from shardbook.problems import tree_mode_shard_map as solution
from shardgrade.checks import _flax
from shardgrade.grading import measures, same, spies
from shardgrade.grading._jax_internals import shard_maps

EXAMPLE = "tree_mode_shard_map(0.0, normal(4, 6), 16.0)"
BACK = "What comes back"
SPEC = "A spec for each Variable"
FIXED = "the function does not ask jax for the number of devices"
GIVEN = solution.TPLinear.step.__code__


ENTRIES = (
    (0, "y.sum() is not that of the unsharded Linear", "Problem"),
    (1, "this is not y[0, -1] of a y that has all columns", "Problem"),
    (3, "calls is not 2: call step twice, on one model", "Problem"),
    (2, "this is not the sum of colsum after two calls", "Problem"),
    (4, "cols is not features: is each column on one device?", SPEC),
    (5, "n_python is not 0: tree mode does not bring it back", BACK),
    (6, "last is not 0: tree mode does not bring it back", BACK),
)
ENTRY_NAMES = (
    "sum of y",
    "last of y's first row",
    "sum of colsum",
    "calls",
    "cols",
    "n_python",
    "last",
)


@contextmanager
def altered() -> Iterator[set[str]]:
    """Alter every TPLinear, and give the modes in which its step ran."""
    modes: set[str] = set()
    write = nnx.Pytree.__setattr__

    # An attempt may have a TPLinear of its own, and may have taken step
    # out of it early. Its __init__ and its step pass here even so.
    def watched(self: Any, name: str, value: Any) -> None:
        if name == "n_python" and value in (6, 7):
            code = getattr(type(self).step, "__code__", None)
            given = code and code.co_names == GIVEN.co_names
            mode = running[-1] if running and given else "neither mode"
            if value == 7 and mode == "tree mode":
                mode = "tree mode, twice in a call"
            modes.add(mode)
            # A plain attribute can't become a Variable.
            if isinstance(vars(self).get("last"), str):
                del self.last
            self.cols[...] += 100
            self.linear.bias[...] += 1
        write(self, name, value)
        if name == "n_python" and value == 0:
            self.calls[...] += 10
            self.colsum[...] += 1
            self.n_python = 5
            # Not a Variable: it would need a spec.
            self.last = "before"

    alter = spies.replaced(nnx.Pytree, "__setattr__", watched)
    with _flax.nnx_shard_maps() as running, alter:
        yield modes


def received(names: dict[tuple[int, ...], str], seen: same.Seen) -> str:
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


def exchanged(seen: same.Seen) -> str:
    """Describe what the devices exchange inside the shard_maps of a call.

    The compiler adds collectives of its own outside of them. There is no
    public way to tell these apart: the metadata of an instruction has the
    path of transformations that it comes from, with ``/shard_map/``.
    """
    lines = [
        f"{each.kind} of {array}"
        for program in same.compiled_programs(seen.attempt, seen.case)
        for each in program.communication
        if "/shard_map/" in each.op_name
        for array in each.arrays
    ]
    return "\n".join(dict.fromkeys(lines))


def name_entries(seen: same.Seen) -> Any:
    """Give the numbers of a result by their names, each an array.

    Arrays are compared as near as a sum over other devices is.
    """
    if getattr(seen.result, "shape", ()) != (len(ENTRY_NAMES),):
        return seen.result
    return dict(zip(ENTRY_NAMES, seen.result, strict=True))


def held_shards(shape: tuple[int, ...], seen: same.Seen) -> str:
    """Describe where the arrays of a shape are that an attempt held."""
    found = [
        measures.describe_shards(each)
        for each in seen.values
        if isinstance(each, jax.Array)
        and not isinstance(each, jax.core.Tracer)
        and each.shape == shape
    ]
    return "\n".join(dict.fromkeys(found))


PLAIN = (EXAMPLE, "tree_mode_shard_map(7.0, normal(2, 5, seed=3), 20.0)")
ALTERED = same.Case(
    "tree_mode_shard_map(0.0, normal(3, 6), 24.0)",
    "where a TPLinear starts with calls of 10, colsum of 1, n_python of 5 "
    "and a last, and its step adds 100 to cols and 1 to the bias",
    altered,
)
# What was traced before is not entered again: no other call has these
# shapes. Of eight devices, four can share the columns.
CALL = "tree_mode_shard_map(3, normal(5, 3), 12)"
ENTERED = same.Case(CALL, under=shard_maps, values=True)
COUNT = jax.device_count()
OTHER_DEVICES = 3 * COUNT // 2
ON_ALL = same.Case(
    f"tree_mode_shard_map(0.0, normal(3, 6), {COUNT}.0)",
    f"where there are {COUNT} devices",
    shard_maps,
)
NAMES = {(3, 12): "the kernel", (12,): "bias or colsum", (5, 3): "x"}
structure = partial(same.structure, ALTERED)
meshes = partial(received, {})
placement = partial(same.placement, ENTERED, agree=same.within)
CHECKS = {
    "types": same.types(
        [EXAMPLE, "tree_mode_shard_map(1.0, normal(5, 3), 9.0)"]
    ),
    **same.numbered("entry")(
        same.values(PLAIN, measures.entry_at(i), why, read=read)
        for i, why, read in ENTRIES
    ),
    "step": structure(
        lambda seen: sorted(seen.noted),
        "nnx.shard_map does not run the given step in tree mode, once in "
        "a call",
        read=BACK,
    ),
    "result": structure(
        name_entries,
        "an entry does not follow the model, whose step is another one "
        "here: it is a constant, or of the first call",
    ),
    "mesh": placement(
        meshes, "the mesh is not the one that the problem asks for"
    ),
    "columns": placement(
        partial(received, NAMES),
        "a device does not receive its columns: in_specs decides which",
        read=SPEC,
    ),
    "y_columns": placement(
        partial(held_shards, (5, 12)),
        "y is not left where it was computed, each device with its columns",
        agree=lambda found, wanted: not found or wanted in found,
    ),
    "exchange": same.communication(
        EXAMPLE,
        exchanged,
        "the devices exchange more than the number of their columns",
        agree=same.within,
    ),
}
# In a process of its own, which has OTHER_DEVICES.
ELSEWHERE = {
    "fixed": same.placement(ON_ALL, meshes, FIXED, agree=same.within),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("incompatible shapes|contracting|too long|KeyError", SPEC),
    ("prefix|unhashable|StateSharding|structure", "Specs of another form"),
    ("Duplicate", BACK),
    (r"require replication(.|\n)*states\[", BACK),
    ("no attribute 'last'|_rem_singleton.*require replication", BACK),
    ("require replication", "On eight devices"),
)
DEPRECATED = "The API"
