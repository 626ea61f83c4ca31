import re

import jax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P


def fsdp_adamw(build, loss, tx, mesh, rules):
    batch_sharding = NamedSharding(mesh, P("data"))
    replicated = NamedSharding(mesh, P())

    def create():
        model = build(
            lambda x: jax.lax.with_sharding_constraint(
                x, NamedSharding(mesh, P("data", *[None] * (x.ndim - 1)))
            )
        )
        return nnx.split((model, nnx.Optimizer(model, tx, wrt=nnx.Param)))

    # A graphdef is no array, so it is noted as create is traced.
    graphdefs = []

    def state_only():
        graphdef, state = create()
        graphdefs.append(graphdef)
        return state

    abstract = jax.eval_shape(state_only)
    by_path = {
        ".".join(str(key) for key in path): leaf.get_value().shape
        for path, leaf in nnx.to_flat_state(abstract[0])
    }

    def sharding(path, shape):
        # The longest path first: the others may be the end of it.
        for name in sorted(by_path, key=len, reverse=True):
            same = by_path[name] == shape
            if same and f".{path}".endswith(f".{name}"):
                spec = next(s for r, s in rules if re.fullmatch(r, name))
                return NamedSharding(mesh, spec)
        return replicated

    def of_variable(path, variable):
        path = ".".join(str(key) for key in path)
        return jax.tree.map(lambda x: sharding(path, x.shape), variable)

    shardings = nnx.map_state(of_variable, abstract)
    state = jax.jit(state_only, out_shardings=shardings)()
    model, optimizer = nnx.merge(graphdefs[0], state)

    def pure(state, batch):
        model, optimizer = nnx.merge(graphdefs[0], state)
        value, gradients = nnx.value_and_grad(loss)(model, batch)
        optimizer.update(model, gradients)
        return value, nnx.state((model, optimizer))

    compiled = jax.jit(
        pure,
        in_shardings=(shardings, batch_sharding),
        out_shardings=(replicated, shardings),
        donate_argnums=0,
    )

    def step(model, optimizer, batch):
        value, state = compiled(nnx.state((model, optimizer)), batch)
        nnx.update((model, optimizer), state)
        return value

    return model, optimizer, step
