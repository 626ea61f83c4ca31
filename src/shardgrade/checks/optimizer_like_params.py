"""What a right ``optimizer_like_params`` must show."""

from functools import partial

import numpy as np

from shardgrade.grading import measures, same

SHARDED = "counted_mlp({mesh}, sharded=True)"


def cases(tx: str, model: str = SHARDED) -> list[same.Case]:
    """Give a call on each mesh for one transformation."""
    return same.on_meshes(
        f"optimizer_like_params({model}, {tx}(), {{mesh}})"
    )


def places(scalar: bool, seen: same.Seen) -> dict[str, str]:
    """Describe where the scalars are, or all other arrays."""
    return {
        path: measures.describe_shards(leaf)
        for path, leaf in same.leaves_by_path(seen.result).items()
        if (np.ndim(leaf) == 0) == scalar
    }


ADAM = cases("adam")
# The meshes are tried above: for what follows, one is enough.
FACTORS, SHAPES = (cases(tx)[:1] for tx in ("adafactor", "from_shapes"))
# As texts, the paths of two models end with those of a third, in which the
# paths of a layer end with those of a layer of its own.
MODELS = (
    f"named(backup=counted_mlp({{mesh}}), up={SHARDED}, "
    "warmup=counted_mlp({mesh}), down=counted_mlp({mesh}).down)"
)
ADAM += cases("adam", MODELS)[:1]
ALL = ADAM + FACTORS + SHAPES
EXAMPLE = ADAM[0].call
scalars, arrays = partial(places, True), partial(places, False)
NO_OPTIMIZER = "this is not nnx.Optimizer(model, tx, wrt=nnx.Param)"
NO_START = "the optimizer state does not have its initial values"
MOVED = "the model that was passed in now has another sharding"
COUNT = "a counter is not replicated over the mesh"
MOMENT = "a moment is not sharded like its parameter"
ZEROS = "a moment from jnp.zeros is not sharded like its parameter"
NO_TX = "the tx is another object, so a step would be traced again"
CHECKS = {
    "no_optimizer": same.contract(
        ALL, measures.class_name, NO_OPTIMIZER, read="The API"
    ),
    "no_optimizer_2": same.contract(
        ALL, measures.types, NO_OPTIMIZER, read="The API"
    ),
    "no_start": same.values(ALL, measures.result, NO_START),
    "moved": same.placement(ADAM, measures.argument_layouts, MOVED),
    "count": same.placement(
        ALL, scalars, COUNT, read="A count on one device"
    ),
    "moment": same.placement(ADAM, arrays, MOMENT, read="The API"),
    "zeros": same.placement(
        SHAPES, arrays, ZEROS, read="A count on one device"
    ),
    "other": same.placement(
        FACTORS,
        arrays,
        "an array with another shape than its parameter is not replicated",
        read="Matched by shape alone, or by path alone",
    ),
    "no_tx": same.structure(ADAM, lambda seen: seen.result.tx, NO_TX),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("mesh context or metadata", "Annotated Variables"),
    (
        "array axis|rank at least",
        "Matched by shape alone, or by path alone",
    ),
)
