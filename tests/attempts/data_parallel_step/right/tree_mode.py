import jax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P


def data_parallel_step(model, optimizer, mesh):
    shardings = jax.tree.map(
        lambda variable: variable[...].sharding,
        (model, optimizer),
        is_leaf=lambda node: isinstance(node, nnx.Variable),
    )

    def loss_of(model, batch):
        return ((model(batch["x"]) - batch["y"]) ** 2).mean()

    def step(model, optimizer, batch):
        params = nnx.DiffState(0, nnx.Param)
        loss, grads = nnx.value_and_grad(loss_of, argnums=params)(
            model, batch
        )
        optimizer.update(model, grads)
        return loss

    return nnx.jit(
        step,
        in_shardings=(*shardings, NamedSharding(mesh, P("data"))),
        donate_argnums=(0, 1),
        graph=False,
    )
