# wrong: structure
"""The kernel is that of a Linear built with zeros."""

import jax.numpy as jnp
from flax import nnx


def state_zero_kernel(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    model.bias[...] = jnp.ones((int(features),))
    zeros = nnx.Linear(
        x.shape[-1],
        int(features),
        kernel_init=nnx.initializers.zeros,
        rngs=nnx.Rngs(int(seed)),
    )
    nnx.update(model, nnx.state(zeros, nnx.PathContains("kernel")))
    return model(x)
