# crashed: contract
"""A plain jit; the compiler will cut what it likes."""

import jax.numpy as jnp
from flax import nnx

from shardbook.problems.tree_mode_shard_map import TPLinear


def tree_mode_shard_map(seed, x, features):
    model = TPLinear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    step = TPLinear.step
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
