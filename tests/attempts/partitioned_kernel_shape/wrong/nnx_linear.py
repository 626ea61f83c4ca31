# wrong: dense
"""The same thing in NNX."""

import jax
import jax.numpy as jnp
from flax import nnx


def partitioned_kernel_shape(seed, x, features):
    mesh = jax.make_mesh((1,), ("model",), devices=jax.devices()[:1])
    kernel_init = nnx.with_partitioning(
        nnx.initializers.lecun_normal(), (None, "model")
    )
    with jax.set_mesh(mesh):
        layer = nnx.Linear(
            x.shape[-1],
            int(features),
            kernel_init=kernel_init,
            rngs=nnx.Rngs(int(seed)),
        )
    return jnp.array(layer.kernel.shape, jnp.float32)
