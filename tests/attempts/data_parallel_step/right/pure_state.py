import functools

import jax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P


def data_parallel_step(model, optimizer, mesh):
    graphdef, state = nnx.split((model, optimizer))
    shardings = jax.tree.map(lambda leaf: leaf.sharding, state)
    rows = NamedSharding(mesh, P("data"))

    @functools.partial(
        jax.jit,
        in_shardings=(shardings, rows),
        out_shardings=(NamedSharding(mesh, P()), shardings),
        donate_argnums=0,
    )
    def pure(state, batch):
        model, optimizer = nnx.merge(graphdef, state)

        def loss_of(model):
            return jax.numpy.square(model(batch["x"]) - batch["y"]).mean()

        loss, gradients = nnx.value_and_grad(loss_of)(model)
        optimizer.update(model, gradients)
        return loss, nnx.state((model, optimizer))

    def step(model, optimizer, batch):
        both = model, optimizer
        loss, updated = pure(nnx.state(both), batch)
        nnx.update(both, updated)
        return loss

    return step
