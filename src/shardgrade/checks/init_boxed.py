"""What a right ``init_boxed`` must show."""

from typing import Any

import jax
from flax import linen as nn

from shardgrade.grading import measures, same
from shardscope.arrays.paths import dotted


def cases(
    layer: str, rules: str = "", x: str = "normal(4, 16)"
) -> list[same.Case]:
    """Give a call for each mesh."""
    rest = f", {rules}" * bool(rules)
    return same.on_meshes(
        f"init_boxed({layer}, random_key(3), {x}, {{mesh}}{rest})"
    )


def describe_parts(seen: same.Seen) -> dict[str, Any]:
    """Give the boxes of the result, and the arrays without one, by path."""
    leaves = jax.tree.leaves_with_path(
        seen.result, is_leaf=nn.meta.is_axis_metadata
    )
    return {dotted(path): leaf for path, leaf in leaves}


def boxes(seen: same.Seen) -> str:
    """Describe the box of each array, in a line."""
    return "\n".join(
        f"{path}: {type(leaf).__name__} of {leaf.names}"
        if isinstance(leaf, nn.Partitioned)
        else f"{path}: no box"
        for path, leaf in describe_parts(seen).items()
    )


def without_box(seen: same.Seen) -> dict[str, str]:
    """Describe the shards of each array that has no box."""
    return {
        path: measures.describe_shards(leaf)
        for path, leaf in describe_parts(seen).items()
        if not isinstance(leaf, nn.Partitioned)
    }


# A name is a mesh axis, or several: each kernel is sharded on some mesh.
ON_AXES = cases(
    "normed(dense(32, (None, 'model')), "
    "dense(16, ('model', 'data'), ('data',)))"
)
# The meshes are tried above: for what follows, one is enough.
# Here x has to stay an array of integers.
ON_BOTH = cases(
    "normed(lambda x: normal(4, 16)[x], "
    "dense(32, (None, ('data', 'model'))))",
    x="numpy_batch(4)['y']",
)[:1]
LOGICAL = (
    "normed(dense(32, ('embed', 'mlp'), ('mlp',), logical=True), "
    "dense(16, ('mlp', 'embed'), logical=True))"
)
BY_RULES = [
    *cases(
        LOGICAL,
        "[('embed', None), ('mlp', 'model')]",
        "numpy_batch(4, 16)['x']",
    )[:1],
    *cases(LOGICAL, "(('mlp', ('data', 'model')), ('embed', None))")[-1:],
]
# The first rule whose mesh axis is free, and not the first or the last; for
# "heads" none is. The first rule takes the axis, not the first name.
PRIORITY = cases(
    "normed(dense(32, ('embed', 'mlp'), (None,), logical=True), "
    "dense(16, ('heads', 'embed'), ('mlp',), logical=True))",
    "[('embed', 'model'), ('mlp', 'model'), ('mlp', 'data'), "
    "('heads', 'model')]",
)[:1]
# "model" is a mesh axis in one box, and logical in the other.
MIXED = cases(
    "normed(dense(32, (None, 'model')), "
    "dense(16, ('mlp', 'model'), logical=True))",
    "[('mlp', 'model'), ('model', 'data')]",
)[:1]
CASES = [*ON_AXES, *ON_BOTH, *BY_RULES]
LARGE = same.on_meshes(
    "init_boxed(dense(512, ('data', 'model')), random_key(3), "
    "normal(4, 256), {mesh})",
    programs=True,
)[:2]
EXAMPLE = LARGE[0].call
# What must be refused, the name in the message, and what to read.
NO_RULE = "A logical name without a rule"
REFUSED = (
    ("dense(32, (None, 'modle'))", "", "modle", "Problem"),
    (
        "dense(32, ('embed', 'mpl'), logical=True)",
        "[('embed', None), ('mlp', 'model')]",
        "mpl",
        NO_RULE,
    ),
    # A mesh axis, but the box is for logical names.
    ("dense(32, (None, 'model'), logical=True)", "", "model", NO_RULE),
)
INDIVISIBLE = cases("dense(33, (None, 'model'))")[-1]
CHECKS = {
    "arrays": same.contract(
        CASES,
        lambda seen: measures.types_by_path(seen.result),
        "these are not the arrays that layer.init returns",
    ),
    "boxes": same.structure(
        CASES, boxes, "the boxes are not those that layer.init returns"
    ),
    "values": same.values(
        CASES, measures.result, "these are not the values of layer.init"
    ),
    "without_box": same.placement(
        CASES,
        without_box,
        "an array without a box is not replicated on the mesh",
    ),
    "mesh_axes": same.placement(
        ON_AXES + ON_BOTH,
        measures.result_layouts,
        "an array is not sharded by the mesh axes in its nn.Partitioned, "
        "which need no rule",
        read="The API",
    ),
    "rules": same.placement(
        BY_RULES + PRIORITY,
        measures.result_layouts,
        "an array is not sharded as nn.logical_to_mesh_axes maps the names "
        "in its nn.LogicallyPartitioned by the rules",
        read="The API",
    ),
    "both": same.placement(
        MIXED,
        measures.result_layouts,
        "the rules apply only to the names in nn.LogicallyPartitioned; "
        "those in nn.Partitioned are mesh axes",
        read="Mesh axes that pass through the rules",
    ),
    "collectives": same.communication(
        LARGE,
        measures.collectives,
        "a program has collectives, but each device can make its own "
        "shards without the others",
    ),
    "memory": same.memory(
        LARGE,
        measures.program_bytes,
        "a program needs more memory on a device than it takes to make "
        "the shards",
        read="On eight devices",
        agree=same.AtMost(1.05, same.HELD),
    ),
    **same.numbered("name")(
        same.refusal(
            # The last mesh has all devices along "model".
            cases(layer, rules)[-1],
            "a name that is not a mesh axis, or a logical name without "
            "a rule, must raise a ValueError with this name",
            names=name,
            read=heading,
        )
        for layer, rules, name, heading in REFUSED
    ),
    "indivisible": same.refusal(
        INDIVISIBLE,
        "an indivisible dimension must raise a ValueError",
        read="A constraint in the place of out_shardings",
    ),
}
