"""A model that is constrained as it is built, by nnx.jit."""

import re

import jax
from flax import nnx
from jax.sharding import NamedSharding


def init_sharded(build, mesh, rules):
    def constrained(keys, variable):
        path = ".".join(map(str, keys))
        specs = [spec for rule, spec in rules if re.fullmatch(rule, path)]
        if not specs:
            raise ValueError(f"{path} has no rule")
        sharding = NamedSharding(mesh, specs[0])
        return variable.replace(
            jax.lax.with_sharding_constraint(variable.get_value(), sharding)
        )

    @nnx.jit
    def make():
        graphdef, state = nnx.split(build())
        return nnx.merge(graphdef, nnx.map_state(constrained, state))

    return make()
