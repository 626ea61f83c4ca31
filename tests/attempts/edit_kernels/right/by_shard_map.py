"""An elementwise edit of a shard is the edit of that part of the array."""

import re

import jax
from flax import nnx


def edit_kernels(model, pattern, edit):
    state = nnx.state(model)
    paths = [
        keys
        for keys, _ in nnx.to_flat_state(state)
        if re.fullmatch(pattern, ".".join(map(str, keys)))
    ]
    if not paths:
        raise ValueError(f"{pattern!r} is the whole of no path")
    for keys in paths:
        variable = state
        for key in keys:
            variable = variable[key]
        array = variable.get_value()
        spec = array.sharding.spec
        local = jax.shard_map(
            lambda shard: edit(shard).astype(shard.dtype),
            mesh=array.sharding.mesh,
            in_specs=spec,
            out_specs=spec,
            # New zeros are the same on each device, which the types tell.
            check_vma=False,
        )
        variable.set_value(jax.jit(local)(array))
