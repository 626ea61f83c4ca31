# wrong: mesh_axes
"""The mesh and the rules are set, and jit reads neither."""

import jax
from flax import linen as nn


def init_boxed(layer, key, x, mesh, rules=()):
    with jax.set_mesh(mesh), nn.logical_axis_rules(rules):
        return jax.jit(layer.init)(key, x)
