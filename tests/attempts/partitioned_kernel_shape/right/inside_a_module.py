"""The Dense is a part of a larger module, set up there, under jit."""

import jax
import jax.numpy as jnp
from flax import linen as nn


class Model(nn.Module):
    features: int

    def setup(self):
        self.layer = nn.Dense(
            self.features,
            kernel_init=nn.with_partitioning(
                nn.initializers.lecun_normal(), (None, "model")
            ),
        )

    def __call__(self, x):
        return nn.relu(self.layer(x))


def partitioned_kernel_shape(seed, x, features):
    init = jax.jit(Model(int(features)).init)
    params = init(jax.random.key(int(seed)), x)["params"]
    return jnp.array(params["layer"]["kernel"].value.shape, jnp.float32)
