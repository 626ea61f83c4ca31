# wrong: placement
"""The kernel goes in whole, and each device takes its part of it."""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import AxisType, PartitionSpec as P

from shardbook.problems.tree_mode_shard_map import TPLinear

SPECS = {
    ".linear.bias": P("model"),
    ".colsum": P("model"),
}


def pick_spec(path, variable):
    return SPECS.get(jax.tree_util.keystr(path), P())


def step_on_part(model, x):
    kernel = model.linear.kernel[...]
    columns = model.colsum.shape[0]
    start = jax.lax.axis_index("model") * columns
    part = jax.lax.dynamic_slice_in_dim(kernel, start, columns, axis=1)
    # Another Variable: tree mode will drop it.
    model.linear.kernel = nnx.Param(part)
    return model.step(x)


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
        step_on_part,
        mesh=mesh,
        in_specs=(specs, P()),
        out_specs=P(None, "model"),
        graph=False,
    )
    step = nnx.jit(step, graph=False)
    step(model, x)
    y = step(model, x)
    return jnp.array(
        [
            float(y.sum()),
            float(y[0, -1]),
            float(model.colsum[...].sum()),
            float(model.calls[...]),
            float(model.cols[...]),
            float(model.n_python),
            float(hasattr(model, "last")),
        ],
        jnp.float32,
    )
