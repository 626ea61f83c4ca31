# wrong: deprecated
"""The names of the axes are the metadata called sharding_names."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import AxisType


def state_to_sharded_layout(seed, x, features):
    mesh = jax.make_mesh((1,), ("model",), (AxisType.Auto,))
    with jax.set_mesh(mesh):
        model = nnx.Linear(
            x.shape[-1],
            int(features),
            rngs=nnx.Rngs(int(seed)),
            kernel_metadata={"sharding_names": (None, "model")},
            bias_metadata={"sharding_names": ("model",)},
        )
    specs = nnx.get_partition_spec(nnx.state(model))
    return jnp.array([len(jax.tree.leaves(specs))], jnp.float32)
