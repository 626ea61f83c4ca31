"""Inputs of calls of ``average_weights``."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh, PartitionSpec as P

from shardbook.inputs.shared import laid_out


class Bias(nnx.Param):  # type: ignore[type-arg]
    """A Param of a class of its own."""


class Assorted(nnx.Module):
    """Weights of two dtypes, one of them tied, and other Variables."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Embed(16, 32, rngs=rngs)
        self.up = nnx.Linear(32, 16, param_dtype=jnp.bfloat16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.head = nnx.Dict(
            kernel=self.embed.embedding, bias=Bias(jnp.ones(32))
        )
        self.codes = nnx.Param(jnp.arange(8, dtype=jnp.int8))


def assorted(mesh: Mesh) -> nnx.Module:
    """Return a Module with Variables of many kinds, on a mesh.

    Args:
        mesh: Mesh with the axes ``"data"`` and ``"model"``.

    Returns:
        A Module with the bfloat16 weights ``up.kernel`` and ``up.bias``,
        and others in float32, of which ``head.kernel`` is the Variable
        ``embed.embedding``, and ``head.bias`` is of a subclass of
        ``nnx.Param``. Besides, it has an int8 ``nnx.Param``, the
        statistics of a BatchNorm, and the key and the count of a Dropout.
        Two weights are sharded over ``"model"``, one over ``"data"``, one
        over both, and all else is replicated.
    """
    specs = {
        "embed.embedding": P("data", "model"),
        "up.kernel": P(None, "model"),
        "up.bias": P("data"),
        "head.bias": P("model"),
    }
    model = Assorted(rngs=nnx.Rngs(0))

    def place(path: Any, leaf: jax.Array) -> Any:
        name = jax.tree_util.keystr(path[:2], simple=True, separator=".")
        return laid_out(leaf, specs.get(name, P()), mesh)

    nnx.update(model, jax.tree.map_with_path(place, nnx.state(model)))
    return model


def train(model: nnx.Module) -> None:
    """Give a model other floats, as a step does that donates the model.

    Args:
        model: The model, whose arrays keep their shardings. Each floating
            point number ``x`` becomes ``3 - x / 2``.
    """
    nnx.update(model, _train(nnx.state(model)))


@jax.jit(donate_argnums=0)
def _train(state: Any) -> Any:
    return jax.tree.map(
        lambda x: 3 - x / 2 if jnp.issubdtype(x.dtype, jnp.floating) else x,
        state,
    )
