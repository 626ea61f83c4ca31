from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P


def mixed_precision_step(loss, rate, mesh):
    rows = NamedSharding(mesh, P("data"))
    over = partial(jax.shard_map, mesh=mesh, check_vma=False)

    @jax.jit
    @over(in_specs=(P("data"), P("data")), out_specs=(P(), P("data")))
    def gradients_of(params, batch):
        whole = jax.tree.map(
            lambda p: lax.all_gather(
                p.astype("bfloat16"), "data", axis=0, tiled=True
            ),
            params,
        )
        value, found = jax.value_and_grad(loss)(whole, batch)
        return lax.pmean(value, "data"), jax.tree.map(
            lambda g: lax.psum_scatter(
                g.astype("float32"), "data", scatter_dimension=0, tiled=True
            ),
            found,
        )

    @partial(jax.jit, donate_argnums=(0, 1))
    def update(params, gradients):
        scale = jnp.float32(rate / mesh.shape["data"])
        return jax.tree.map(lambda p, g: p - scale * g, params, gradients)

    def step(params, batch):
        batch = jax.device_put(batch, rows)
        value, gradients = gradients_of(params, batch)
        return update(params, gradients), value

    return step
