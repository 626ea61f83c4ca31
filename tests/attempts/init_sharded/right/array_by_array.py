"""A program for each array, which leaves out what the others need."""

import re
from functools import partial

import jax
from flax import nnx
from jax.sharding import NamedSharding


def sharding_for(path, mesh, rules):
    for pattern, spec in rules:
        if re.fullmatch(pattern, path):
            return NamedSharding(mesh, spec)
    raise ValueError(path)


def init_sharded(build, mesh, rules):
    abstract = nnx.eval_shape(build)
    flat = dict(nnx.to_flat_state(nnx.state(abstract)))
    shardings = {
        keys: sharding_for(".".join(map(str, keys)), mesh, rules)
        for keys in flat
    }

    def only(keys):
        return dict(nnx.to_flat_state(nnx.state(build())))[keys].get_value()

    for keys, sharding in shardings.items():
        array = jax.jit(partial(only, keys), out_shardings=sharding)()
        flat[keys] = flat[keys].replace(array)
    return nnx.merge(nnx.graphdef(abstract), nnx.from_flat_state(flat))
