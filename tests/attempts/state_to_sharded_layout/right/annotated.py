"""The Variables carry their specs, on a mesh of one device."""

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
            kernel_metadata={"out_sharding": (None, "model")},
            bias_metadata={"out_sharding": ("model",)},
        )
    specs = nnx.get_partition_spec(nnx.state(model, nnx.Param))
    return jnp.array([len(jax.tree.leaves(specs))], jnp.float32)
