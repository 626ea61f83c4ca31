from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def mixed_precision_step(loss, rate, mesh):
    """Gather, differentiate and add up, each in its own shard_map."""
    on_mesh = partial(jax.shard_map, mesh=mesh, check_vma=False)
    rows = P("data")

    @on_mesh(in_specs=rows, out_specs=P())
    def gather(params):
        half = jax.tree.map(lambda p: p.astype(jnp.bfloat16), params)
        return jax.lax.all_gather(half, "data", tiled=True)

    @on_mesh(in_specs=(P(), rows), out_specs=rows)
    def differentiate(whole, batch):
        terms = jax.value_and_grad(loss)(whole, batch)
        return jax.tree.map(lambda term: term[None], terms)

    @on_mesh(in_specs=rows, out_specs=rows)
    def add_up(gradients):
        wide = jax.tree.map(lambda g: jnp.float32(g[0]), gradients)
        return jax.lax.psum_scatter(wide, "data", tiled=True)

    @partial(jax.jit, donate_argnames="params")
    def step(params, batch):
        values, gradients = differentiate(gather(params), batch)
        scale = rate / len(values)
        new = jax.tree.map(
            lambda p, g: p - scale * g, params, add_up(gradients)
        )
        return new, values.mean()

    return step
