"""With a mesh set, and a comparison with a plain Dense."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.sharding import AxisType

Auto = AxisType.Auto


def partitioned_kernel_shape(seed, x, features):
    kernel_init = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    layer = nn.Dense(int(features), kernel_init=kernel_init)
    key = jax.random.key(int(seed))
    mesh = jax.make_mesh((jax.device_count(),), ("model",), (Auto,))
    with jax.set_mesh(mesh):
        variables = jax.jit(layer.init)(key, x)
    plain = nn.Dense(int(features)).init(key, x)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6),
        *(nn.unbox(variables), plain),
    )
    kernel = variables["params"]["kernel"].value
    return jnp.array(kernel.shape, jnp.float32)
