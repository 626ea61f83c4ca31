import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P


def data_parallel_step(model, optimizer, mesh):
    def layouts(node):
        return nnx.StateSharding(
            jax.tree.map(lambda leaf: leaf.sharding, nnx.state(node))
        )

    def local(model, batch):
        """Run on one device, on its rows."""

        def loss_of(model):
            loss = jnp.mean((model(batch["x"]) - batch["y"]) ** 2)
            return jax.lax.pmean(loss, "data")

        return nnx.value_and_grad(loss_of)(model)

    gradients = nnx.shard_map(
        local, mesh=mesh, in_specs=(P(), P("data")), out_specs=(P(), P())
    )

    def step(model, optimizer, batch):
        loss, grads = gradients(model, batch)
        optimizer.update(model, grads)
        return loss

    return nnx.jit(
        step,
        in_shardings=(layouts(model), layouts(optimizer), None),
        donate_argnums=(0, 1),
    )
