import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def sequence_parallel_block(params, x, mesh):
    tokens = P("data", "model", None)
    specs = {"scale": P(None), "up": P(None, "model"), "down": P("model")}

    def on_device(params, x):
        batch, length, dim = x.shape
        root = jnp.sqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6)
        parts = jax.lax.all_gather(params["scale"] * (x / root), "model")
        whole = jnp.moveaxis(parts, 0, 1).reshape(batch, -1, dim)
        hidden = jax.nn.gelu(jnp.einsum("bld,dh->blh", whole, params["up"]))
        terms = jnp.einsum("blh,hd->bld", hidden, params["down"])
        parts = jnp.moveaxis(terms.reshape(batch, -1, length, dim), 1, 0)
        return x + jax.lax.psum_scatter(parts, "model")

    run = jax.shard_map(
        on_device, mesh=mesh, in_specs=(specs, tokens), out_specs=tokens
    )
    return run(params, x)
