# wrong: forward
import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def sequence_parallel_block(params, x, mesh):
    def to(array, *spec):
        sharding = NamedSharding(mesh, P(*spec))
        return jax.lax.with_sharding_constraint(array, sharding)

    square = (x**2).mean(axis=-1, keepdims=True)
    normed = x * jax.lax.rsqrt(square + 1e-6) * params["scale"]
    whole = to(normed, "data")
    hidden = to(jax.nn.gelu(whole @ params["up"]), "data", None, "model")
    return x + to(hidden @ params["down"], "data", "model")
