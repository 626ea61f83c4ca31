# wrong: layout
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def mixed_precision_step(loss, rate, mesh):
    """Keep whole float32 parameters on each device."""

    def local(params, batch):
        half = jax.tree.map(lambda p: p.astype(jnp.bfloat16), params)
        value, gradients = jax.value_and_grad(loss)(half, batch)
        gradients = jax.tree.map(
            lambda g: jax.lax.pmean(g.astype(jnp.float32), "data"),
            gradients,
        )
        new = jax.tree.map(lambda p, g: p - rate * g, params, gradients)
        return new, jax.lax.pmean(value, "data")

    step = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(P(), P("data")),
        out_specs=(P(), P()),
        check_vma=False,
    )
    return jax.jit(step, donate_argnums=0)
