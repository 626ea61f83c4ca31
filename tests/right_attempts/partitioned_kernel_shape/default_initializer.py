"""The default initializer is lecun_normal, and a dummy stands for x."""

import jax
import jax.numpy as jnp
from flax import linen as nn


def partitioned_kernel_shape(seed, x, features):
    layer = nn.Dense(
        features=int(features),
        use_bias=False,
        kernel_init=nn.with_partitioning(
            nn.linear.default_kernel_init, names=(None, "model")
        ),
    )
    dummy = jnp.ones((1, x.shape[-1]))
    (kernel,) = jax.tree.leaves(
        jax.jit(layer.init)(jax.random.key(int(seed)), dummy)
    )
    return jnp.array(kernel.shape).astype(jnp.float32)
