"""A walk of one's own, without jax or flax to help."""

import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P


def specs_of(node):
    if isinstance(node, nnx.Variable):
        return P(*(None, "model")[-node.ndim :])
    return {name: specs_of(node[name]) for name in node}


def count(node):
    return 1 if isinstance(node, P) else sum(map(count, node.values()))


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    specs = specs_of(nnx.state(model))
    return jnp.array([count(specs)], jnp.float32)
