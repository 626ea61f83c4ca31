import re

import jax
from flax import nnx
from jax.lax import with_sharding_constraint
from jax.sharding import PartitionSpec as P


def spec_of(path, rules):
    return next(spec for rule, spec in rules if re.fullmatch(rule, path))


def specs_of(node, rules):
    state = nnx.state(node)
    specs = {
        path: spec_of(".".join(map(str, path)), rules)
        for path, _ in nnx.to_flat_state(state)
    }
    return nnx.map_state(
        lambda path, leaf: jax.tree.map(lambda _: specs[path], leaf), state
    )


def constrain_all(model, optimizer, rules):
    """Shard the model by rules, and the moments like the parameters."""
    of_model = specs_of(model, rules)
    nnx.update(model, with_sharding_constraint(nnx.state(model), of_model))
    of_params = dict(nnx.to_flat_state(specs_of(model, rules)))

    def place(path, leaf):
        for start in range(len(path)):
            if path[start:] in of_params:
                spec = jax.tree.leaves(
                    of_params[path[start:]],
                    is_leaf=lambda x: isinstance(x, P),
                )[0]
                break
        else:
            spec = P()
        return jax.tree.map(
            lambda x: with_sharding_constraint(x, spec), leaf
        )

    state = nnx.map_state(place, nnx.state(optimizer))
    nnx.update(optimizer, state)


def fsdp_adamw(build, loss, tx, mesh, rules):
    def by_rows(x):
        return with_sharding_constraint(x, P("data"))

    def init():
        model = build(by_rows)
        optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)
        constrain_all(model, optimizer, rules)
        return model, optimizer

    def train(model, optimizer, batch):
        value, gradients = nnx.value_and_grad(loss)(model, batch)
        optimizer.update(model, gradients)
        constrain_all(model, optimizer, rules)
        return value

    with jax.set_mesh(mesh):
        model, optimizer = nnx.jit(init)()
    compiled = nnx.jit(train, donate_argnames=("model", "optimizer"))

    def step(model, optimizer, batch):
        with jax.set_mesh(mesh):
            return compiled(model, optimizer, batch)

    return model, optimizer, step
