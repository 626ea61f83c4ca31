"""Build the model on the mesh, and restore into it."""

import re

import jax
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import NamedSharding


def restore_onto(path, build, mesh, rules):
    state = nnx.state(nnx.eval_shape(build))
    shardings = nnx.from_flat_state(
        [
            (names, NamedSharding(mesh, spec_of(names, rules)))
            for names, leaf in nnx.to_flat_state(state)
        ]
    )

    @jax.jit
    def init():
        state = nnx.to_pure_dict(nnx.state(build()))
        return jax.lax.with_sharding_constraint(
            state, nnx.to_pure_dict(shardings)
        )

    model = nnx.eval_shape(build)
    arrays = nnx.state(model)
    nnx.replace_by_pure_dict(arrays, init())
    nnx.update(model, arrays)
    with ocp.StandardCheckpointer() as reader:
        nnx.update(model, reader.restore(path, nnx.state(model)))
    return model


def spec_of(names, rules):
    path = ".".join(map(str, names))
    return next(spec for each, spec in rules if re.fullmatch(each, path))
