import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def sequence_parallel_block(params, x, mesh):
    specs = {"scale": P(), "up": P(None, "model"), "down": P("model", None)}
    count = mesh.shape["model"]
    ring = [(i, (i + 1) % count) for i in range(count)]

    @jax.shard_map(
        mesh=mesh,
        in_specs=(specs, P("data", "model")),
        out_specs=P("data", "model"),
    )
    def block(params, x):
        # One sum of the kernels' gradients, not one for each use.
        params = jax.lax.pcast(params, "data", to="varying")
        root = jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
        at, hidden = x / root * params["scale"], []
        for turn in range(count):
            hidden.append(jax.nn.gelu(at @ params["up"]))
            if turn < count - 1:
                at = jax.lax.ppermute(at, "model", ring)
        # The sum of a device's tokens passes all others before it.
        total = hidden[1 % count] @ params["down"]
        for turn in range(1, count):
            total = jax.lax.ppermute(total, "model", ring)
            total += hidden[(turn + 1) % count] @ params["down"]
        return x + total

    return block(params, x)
