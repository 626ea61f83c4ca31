import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def sequence_parallel_block(params, x, mesh):
    square = (x**2).mean(axis=-1, keepdims=True)
    normed = x * jax.lax.rsqrt(square + 1e-6) * params["scale"]
    whole = jax.lax.with_sharding_constraint(
        normed, NamedSharding(mesh, P("data"))
    )

    @jax.shard_map(
        mesh=mesh,
        in_specs=(P(None, "model"), P("model"), P("data")),
        out_specs=P("data", "model"),
    )
    def mlp(up, down, whole):
        return jax.lax.psum_scatter(
            jax.nn.gelu(whole @ up) @ down,
            "model",
            scatter_dimension=1,
            tiled=True,
        )

    return x + mlp(params["up"], params["down"], whole)
