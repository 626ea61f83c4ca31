"""Find the states that look like the parameters, and map them together."""

import jax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P


def optimizer_like_params(model, tx, mesh):
    params = nnx.to_pure_dict(nnx.state(model, nnx.Param))
    structure = jax.tree.structure(params)
    everywhere = NamedSharding(mesh, P())

    def like_params(node):
        return jax.tree.structure(node) == structure

    def put(leaf, param):
        same = leaf.shape == param.shape
        return jax.device_put(leaf, param.sharding if same else everywhere)

    def place(node):
        if like_params(node):
            return jax.tree.map(put, node, params)
        return jax.device_put(node, everywhere)

    optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)
    pure = nnx.to_pure_dict(nnx.state(optimizer))
    placed = jax.tree.map(place, pure, is_leaf=like_params)
    nnx.update(optimizer, placed)
    return optimizer
