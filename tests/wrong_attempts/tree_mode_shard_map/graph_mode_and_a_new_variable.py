# crashed: contract
"""Graph mode, with no spec for the Variable that step adds."""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import AxisType, PartitionSpec as P

from shardbook.problems.tree_mode_shard_map import TPLinear


def tree_mode_shard_map(seed, x, features):
    count = math.gcd(int(features), jax.device_count())
    mesh = jax.make_mesh(
        (count,),
        ("model",),
        (AxisType.Auto,),
        devices=jax.devices()[:count],
    )
    model = TPLinear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    specs = nnx.StateSharding(
        {
            nnx.PathContains("kernel"): P(None, "model"),
            nnx.PathContains("bias"): P("model"),
            nnx.PathContains("colsum"): P("model"),
            ...: P(),
        }
    )
    step = nnx.shard_map(
        TPLinear.step,
        mesh=mesh,
        in_specs=(specs, P()),
        out_specs=P(None, "model"),
        graph=True,
    )
    step = nnx.jit(step, graph=True)
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
