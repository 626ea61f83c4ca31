# wrong: forward
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P


def place(y, mesh):
    tokens = NamedSharding(mesh, P("data", "model"))
    return jax.lax.with_sharding_constraint(y, tokens)


def sequence_parallel_block(params, x, mesh):
    specs = {"scale": P(), "up": P(None, "model"), "down": P("model")}

    @jax.shard_map(
        mesh=mesh, in_specs=(specs, P("data")), out_specs=P("data")
    )
    def block(params, x):
        root = jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
        normed = x / root * params["scale"]
        terms = jax.nn.gelu(normed @ params["up"]) @ params["down"]
        return x + jax.lax.psum(terms, "model")

    y = block(params, x)
    return place(y, mesh)
