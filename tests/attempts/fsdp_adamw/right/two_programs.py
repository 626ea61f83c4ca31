import re
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P


def rule_for(keys, rules):
    path = jax.tree_util.keystr(keys, simple=True, separator=".")
    path = path.removesuffix(".value")
    (first, *_) = (s for r, s in rules if re.fullmatch(r, path))
    return first


def like_params(model, optimizer, mesh):
    params = dict(jax.tree.leaves_with_path(nnx.state(model, nnx.Param)))

    def place(keys, leaf):
        ends = (params.get(keys[i:]) for i in range(len(keys)))
        param = next((end for end in ends if end is not None), None)
        if param is None:
            return jax.device_put(leaf, NamedSharding(mesh, P()))
        return jax.device_put(leaf, param.sharding)

    return jax.tree.map_with_path(place, optimizer)


def fsdp_adamw(build, loss, tx, mesh, rules):
    @partial(jax.jit, static_argnums=1)
    def constrained(x, spec):
        return jax.lax.with_sharding_constraint(
            x, NamedSharding(mesh, spec)
        )

    make = partial(build, lambda x: constrained(x, P("data")))
    graphdef, shapes = nnx.split(nnx.eval_shape(make))
    shardings = jax.tree.map_with_path(
        lambda keys, _: NamedSharding(mesh, rule_for(keys, rules)), shapes
    )
    state = jax.jit(lambda: nnx.state(make()), out_shardings=shardings)()
    model = nnx.merge(graphdef, state)
    optimizer = like_params(
        model, nnx.Optimizer(model, tx, wrt=nnx.Param), mesh
    )
    of_optimizer = jax.tree.map(lambda a: a.sharding, nnx.state(optimizer))
    of_params = jax.tree.map(
        lambda a: a.sharding, nnx.state(model, nnx.Param)
    )

    @nnx.jit(
        in_shardings=(nnx.StateSharding(shardings), None), donate_argnums=0
    )
    def gradients(model, batch):
        value, found = nnx.value_and_grad(loss)(model, batch)
        place = jax.lax.with_sharding_constraint
        return value, jax.tree.map(place, found, of_params)

    @nnx.jit(
        in_shardings=(
            nnx.StateSharding(shardings),
            nnx.StateSharding(of_optimizer),
            None,
        ),
        donate_argnums=(0, 1, 2),
    )
    def update(model, optimizer, found):
        optimizer.update(model, found)

    def step(model, optimizer, batch):
        value, found = gradients(model, batch)
        update(model, optimizer, found)
        return jnp.asarray(value)

    return model, optimizer, step
