"""Inputs of calls of ``place_state``."""

import re

import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh, PartitionSpec as P

from shardbook.inputs.shared import RULES, laid_out

OVERLAPPING = (
    # These two match no whole path.
    ("up", P("data")),
    ("UP.*", P("data")),
    (r"(.*\.)?up\.bias", P()),
    (r"(.*\.)?up\.bias", P("model")),
    (".*kernel", P()),
    *RULES,
)
"""Overlapping rules, so that it matters that the first match counts.

The first two match no array of :func:`~shardbook.inputs.mlp`, since a
pattern has to match the whole path. Two have the same pattern, and a later
one is longer.

:meta hide-value:
"""


def placed(
    model: nnx.Module, mesh: Mesh, dtype: str = "float32"
) -> nnx.Module:
    """Return a model, laid out by rules, with floats of a dtype.

    The rules are :data:`~shardbook.inputs.shared.RULES`.

    Args:
        model: The model, which is changed: its Variables get new arrays.
        mesh: Mesh with the axes ``"data"`` and ``"model"``.
        dtype: The dtype of all floating-point arrays.

    Returns:
        The same model.
    """
    for keys, variable in nnx.to_flat_state(nnx.state(model)):
        path = ".".join(map(str, keys))
        spec = next(
            spec for rule, spec in RULES if re.fullmatch(rule, path)
        )
        array = variable.get_value()
        if jnp.issubdtype(array.dtype, jnp.floating):
            array = array.astype(dtype)
        variable.set_value(laid_out(array, spec, mesh))
    return model
