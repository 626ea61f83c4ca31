# wrong: values
"""One for the kernel, and one more if there is a bias."""

import jax.numpy as jnp
from flax import nnx


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    return jnp.array([1.0 + (model.bias is not None)], jnp.float32)
