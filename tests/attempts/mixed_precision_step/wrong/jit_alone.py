# wrong: ask
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P


def mixed_precision_step(loss, rate, mesh):
    """Cast in a jitted function, and leave the collectives to XLA."""
    sharded, whole = (NamedSharding(mesh, P(*s)) for s in (["data"], []))

    def step(params, batch):
        half = jax.tree.map(lambda p: p.astype(jnp.bfloat16), params)
        value, gradients = jax.value_and_grad(loss)(half, batch)
        new = jax.tree.map(
            lambda p, g: p - rate * g.astype(jnp.float32), params, gradients
        )
        return new, value

    return jax.jit(step, donate_argnums=0, out_shardings=(sharded, whole))
