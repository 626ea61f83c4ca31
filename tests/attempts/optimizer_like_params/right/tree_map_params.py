"""optax tells which parts of its state are like the parameters."""

import jax
import optax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec


def optimizer_like_params(model, tx, mesh):
    optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)
    everywhere = NamedSharding(mesh, PartitionSpec())

    def like(leaf, param):
        if leaf.shape != param.shape:
            return everywhere
        return param.sharding

    pure = nnx.as_pure(optimizer.opt_state)
    shardings = optax.tree_utils.tree_map_params(
        tx,
        like,
        pure,
        nnx.as_pure(nnx.state(model, nnx.Param)),
        transform_non_params=lambda leaf: everywhere,
    )
    treedef = jax.tree.structure(optimizer.opt_state)
    placed = jax.tree.leaves(jax.device_put(pure, shardings))
    optimizer.opt_state = nnx.data(jax.tree.unflatten(treedef, placed))
    optimizer.step[...] = jax.device_put(optimizer.step[...], everywhere)
    return optimizer
