"""Read NumPy arrays, and send each device its slices."""

import re

import jax
import numpy as np
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import NamedSharding


def restore_onto(path, build, mesh, rules):
    graphdef, target = nnx.split(nnx.eval_shape(build))

    def sharding(keys, leaf):
        name = jax.tree_util.keystr(keys, simple=True, separator=".")
        for pattern, spec in rules:
            if re.fullmatch(pattern + r"\.value", name):
                return NamedSharding(mesh, spec)

    shardings = jax.tree.map_with_path(sharding, target)
    as_numpy = jax.tree.map(
        lambda leaf: ocp.RestoreArgs(restore_type=np.ndarray), target
    )
    wanted = ocp.args.PyTreeRestore(item=target, restore_args=as_numpy)
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
        arrays = reader.restore(path, wanted)
    arrays = jax.device_put(arrays, shardings)
    return nnx.merge(graphdef, jax.tree.map(as_key, target, arrays))


def as_key(wanted, array):
    if jax.numpy.issubdtype(wanted.dtype, jax.dtypes.prng_key):
        array = jax.random.wrap_key_data(array)
    if array.shape != wanted.shape:
        raise ValueError(f"{array.shape} was saved, not {wanted.shape}")
    return array
