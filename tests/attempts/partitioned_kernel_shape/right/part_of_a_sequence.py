"""A part of nn.Sequential, from functools.partial, seen by jax.tree."""

import functools

import jax
import jax.numpy as jnp
from flax import linen as nn

lecun = nn.initializers.lecun_normal()
Columns = functools.partial(
    nn.Dense, kernel_init=nn.with_partitioning(lecun, (None, "model"))
)


def is_box(node):
    return isinstance(node, nn.Partitioned)


def partitioned_kernel_shape(seed, x, features):
    layer = nn.Sequential([Columns(int(features)), nn.relu])
    variables = layer.init(jax.random.key(int(seed)), x)
    leaves = jax.tree.leaves(variables, is_leaf=is_box)
    (box,) = filter(is_box, leaves)
    return jnp.stack([jnp.float32(size) for size in box.value.shape])
