"""The initializers carry the specs, and a mesh is set meanwhile."""

import jax
import jax.numpy as jnp
from flax import nnx


def state_to_sharded_layout(seed, x, features):
    kernel_init = nnx.with_partitioning(
        nnx.initializers.lecun_normal(), (None, "model")
    )
    bias_init = nnx.with_partitioning(
        nnx.initializers.zeros_init(), ("model",)
    )
    with jax.set_mesh(jax.make_mesh((1,), ("model",))):
        model = nnx.Linear(
            x.shape[-1],
            int(features),
            kernel_init=kernel_init,
            bias_init=bias_init,
            rngs=nnx.Rngs(int(seed)),
        )
    _, state = nnx.split(model)
    specs = nnx.get_partition_spec(state)
    return jnp.array([len(jax.tree.leaves(specs))], jnp.float32)
