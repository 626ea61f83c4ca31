# wrong: structure
"""Cut by out_shardings, and never annotated."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P


def partitioned_kernel_shape(seed, x, features):
    mesh = jax.make_mesh(
        (jax.device_count(),), ("model",), (AxisType.Auto,)
    )
    cut = features % mesh.size == 0
    columns = NamedSharding(mesh, P(None, "model" if cut else None))
    layer = nn.Dense(int(features), use_bias=False)
    init = jax.jit(layer.init, out_shardings=columns)
    variables = init(jax.random.key(int(seed)), x)
    kernel = variables["params"]["kernel"]
    return jnp.array(kernel.shape, jnp.float32)
