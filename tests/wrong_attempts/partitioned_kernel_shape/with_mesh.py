# wrong: deprecated
"""Under the mesh, by the with of the old days."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import Mesh


def partitioned_kernel_shape(seed, x, features):
    kernel_init = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    layer = nn.Dense(int(features), kernel_init=kernel_init)
    mesh = Mesh(jax.devices()[:1], ("model",))
    with mesh:
        variables = layer.init(jax.random.key(int(seed)), x)
    kernel = variables["params"]["kernel"].value
    return jnp.array(kernel.shape, jnp.float32)
