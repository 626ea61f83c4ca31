from flax import nnx
from jax.lax import with_sharding_constraint
from jax.sharding import NamedSharding, PartitionSpec
from jax.tree import map as tree_map


def data_parallel_step(model, optimizer, mesh):
    state = nnx.state((model, optimizer))
    shardings = tree_map(lambda array: array.sharding, state)

    def mse(model, x, y):
        error = model(x) - y
        return (error * error).sum() / error.size

    @nnx.jit(donate_argnames=("model", "optimizer"))
    def step(model, optimizer, batch):
        batch = with_sharding_constraint(
            batch, NamedSharding(mesh, PartitionSpec("data"))
        )
        loss, grads = nnx.value_and_grad(mse)(model, batch["x"], batch["y"])
        optimizer.update(model, grads)
        both = model, optimizer
        placed = with_sharding_constraint(nnx.state(both), shardings)
        nnx.update(both, placed)
        return loss

    return step
