"""Logical boxes are swapped for boxes of mesh axes, to be read at once."""

import jax
from flax import core, linen as nn


def init_boxed(layer, key, x, mesh, rules=()):
    known = {name for name, _ in rules}

    def to_axes(box):
        if not isinstance(box, nn.LogicallyPartitioned):
            return box
        for name in box.names:
            if name is not None and name not in known:
                raise ValueError(f"{name!r} has no rule")
        spec = nn.logical_to_mesh_axes(box.names, rules)
        return nn.Partitioned(box.value, names=spec)

    abstract = jax.eval_shape(lambda key: layer.init(key, x), key)
    shardings = nn.get_sharding(
        core.meta.map_axis_meta(to_axes, abstract), mesh
    )
    init = jax.jit(lambda key: layer.init(key, x), out_shardings=shardings)
    return core.freeze(init.lower(key).compile()(key))
