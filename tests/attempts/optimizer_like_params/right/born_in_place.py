import jax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P


def optimizer_like_params(model, tx, mesh):
    graphdef, params, rest = nnx.split(model, nnx.Param, ...)

    def make(params):
        return nnx.Optimizer(
            nnx.merge(graphdef, params, rest), tx, wrt=nnx.Param
        )

    known = sorted(
        [
            (jax.tree_util.keystr(path), param)
            for path, param in jax.tree.leaves_with_path(params)
        ],
        key=lambda each: -len(each[0]),
    )

    def sharding(path, leaf):
        name = jax.tree_util.keystr(path)
        for end, param in known:
            if name.endswith(end) and param.shape == leaf.shape:
                return param.sharding
        return NamedSharding(mesh, P())

    shapes = jax.eval_shape(make, params)
    shardings = jax.tree.map_with_path(sharding, shapes)
    return jax.jit(make, out_shardings=shardings)(params)
