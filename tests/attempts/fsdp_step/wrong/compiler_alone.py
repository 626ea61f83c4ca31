# wrong: sent_1
"""Only jit and shardings: the compiler chooses the collectives."""

import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def fsdp_step(loss, specs, mesh, rate):
    layout = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)

    def step(params, batch):
        value, gradients = jax.value_and_grad(loss)(params, batch)
        new = jax.tree.map(lambda p, g: p - rate * g, params, gradients)
        return new, value

    results = (layout, NamedSharding(mesh, P()))
    return jax.jit(step, donate_argnums=0, out_shardings=results)
