"""The Dense is made on the way, in a compact module."""

import jax
import jax.numpy as jnp
from flax import linen as nn


class Model(nn.Module):
    features: int

    @nn.compact
    def __call__(self, x):
        kernel_init = nn.with_partitioning(
            nn.initializers.lecun_normal(), (None, "model")
        )
        return nn.Dense(self.features, kernel_init=kernel_init)(x)


def partitioned_kernel_shape(seed, x, features):
    params = Model(int(features)).init(jax.random.key(int(seed)), x)
    (kernel,) = [
        leaf
        for path, leaf in jax.tree.leaves_with_path(params)
        if "kernel" in jax.tree_util.keystr(path)
    ]
    return jnp.array(kernel.shape, jnp.float32)
