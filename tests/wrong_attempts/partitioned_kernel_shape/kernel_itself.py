# wrong: contract
"""The kernel instead of its shape."""

import jax
from flax import linen as nn


def partitioned_kernel_shape(seed, x, features):
    kernel_init = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    layer = nn.Dense(int(features), kernel_init=kernel_init)
    variables = layer.init(jax.random.key(int(seed)), x)
    return variables["params"]["kernel"].value
