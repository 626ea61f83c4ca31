# wrong: values
"""Data parallel: the rows of x are cut, the Module is not."""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import AxisType, PartitionSpec as P

from shardbook.problems.tree_mode_shard_map import TPLinear


def tree_mode_shard_map(seed, x, features):
    count = math.gcd(len(x), jax.device_count())
    mesh = jax.make_mesh(
        (count,),
        ("model",),
        (AxisType.Auto,),
        devices=jax.devices()[:count],
    )
    model = TPLinear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    specs = P()
    step = nnx.shard_map(
        TPLinear.step,
        mesh=mesh,
        in_specs=(specs, P("model")),
        out_specs=P("model"),
        graph=False,
        check_vma=False,
    )
    step = nnx.jit(step, graph=False)
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
