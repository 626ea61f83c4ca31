# wrong: structure
"""One step, and twice what it wrote."""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import AxisType, PartitionSpec as P

from shardbook.problems.tree_mode_shard_map import TPLinear

SPECS = {
    ".linear.kernel": P(None, "model"),
    ".linear.bias": P("model"),
    ".colsum": P("model"),
}


def pick_spec(path, variable):
    return SPECS.get(jax.tree_util.keystr(path), P())


def tree_mode_shard_map(seed, x, features):
    count = math.gcd(int(features), jax.device_count())
    mesh = jax.make_mesh(
        (count,),
        ("model",),
        (AxisType.Auto,),
        devices=jax.devices()[:count],
    )
    model = TPLinear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    specs = jax.tree_util.tree_map_with_path(
        pick_spec, model, is_leaf=lambda v: isinstance(v, nnx.Variable)
    )
    step = nnx.shard_map(
        TPLinear.step,
        mesh=mesh,
        in_specs=(specs, P()),
        out_specs=P(None, "model"),
        graph=False,
    )
    step = nnx.jit(step, graph=False)
    y = step(model, x)
    return jnp.array(
        [
            float(y.sum()),
            float(y[0, -1]),
            2 * float(model.colsum[...].sum()),
            2 * float(model.calls[...]),
            float(model.cols[...]),
            float(model.n_python),
            float(hasattr(model, "last")),
        ],
        jnp.float32,
    )
