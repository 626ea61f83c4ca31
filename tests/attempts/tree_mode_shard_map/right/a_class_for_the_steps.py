"""A class that holds mesh and step, and helpers at module level."""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import AxisType, PartitionSpec as P

from shardbook.problems.tree_mode_shard_map import TPLinear

SPECS = {
    ".linear.kernel": P(None, "model"),
    ".linear.bias": P("model"),
    ".colsum": P("model"),
    ".calls": P(),
    ".cols": P(),
}


class Stepper:
    def __init__(self, features):
        count = math.gcd(features, jax.device_count())
        devices = jax.devices()[:count]
        self.mesh = jax.make_mesh(
            (count,), ("model",), (AxisType.Auto,), devices=devices
        )

    def of(self, model):
        mapped = nnx.shard_map(
            lambda model, x: model.step(x),
            mesh=self.mesh,
            in_specs=(specs_of(model), P()),
            out_specs=P(None, "model"),
            graph=False,
        )
        return nnx.jit(mapped, graph=False)


def is_variable(node):
    return isinstance(node, nnx.Variable)


def specs_of(model):
    # Without a default: each Variable is named.
    return jax.tree_util.tree_map_with_path(
        lambda path, _: SPECS[jax.tree_util.keystr(path)],
        model,
        is_leaf=is_variable,
    )


def tree_mode_shard_map(seed, x, features):
    model = TPLinear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    step = Stepper(int(features)).of(model)
    step(model, x)
    y = step(model, x)
    return jnp.array(
        [
            float(y.sum()),
            float(y[0, -1]),
            float(model.colsum[...].sum()),
            float(model.calls[...]),
            float(model.cols[...]),
            float(model.n_python),
            float(hasattr(model, "last")),
        ],
        jnp.float32,
    )
