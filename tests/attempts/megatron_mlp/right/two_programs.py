"""A program for each layer; the hidden units stay sharded between them."""

import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def dense(layer, x):
    return x @ layer["kernel"] + layer["bias"]


def megatron_mlp(params, x, mesh):
    def sharding(*spec):
        return NamedSharding(mesh, P(*spec))

    columns, units = sharding(None, "model"), sharding("model")
    up = {"kernel": columns, "bias": units}
    down = {"kernel": units, "bias": sharding()}
    x = jax.device_put(x, sharding("data"))
    first = jax.jit(dense, out_shardings=sharding("data", "model"))
    second = jax.jit(dense, out_shardings=sharding("data"))

    hidden = jax.nn.gelu(first(jax.device_put(params["up"], up), x))
    return second(jax.device_put(params["down"], down), hidden)
