"""Kernels and the rest split apart, mapped apart and merged again."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    _, kernels, rest = nnx.split(model, nnx.PathContains("kernel"), ...)
    specs = nnx.merge_state(
        jax.tree.map(lambda _: P(None, "model"), kernels),
        jax.tree.map(lambda _: P("model"), rest),
    )
    return jnp.array([len(jax.tree.leaves(specs))], jnp.float32)
