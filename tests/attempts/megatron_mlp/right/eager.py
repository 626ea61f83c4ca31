"""Without jit: each operation is a program of its own."""

import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def megatron_mlp(params, x, mesh):
    def put(array, *spec):
        return jax.device_put(array, NamedSharding(mesh, P(*spec)))

    hidden = put(x, "data") @ put(params["up"]["kernel"], None, "model")
    hidden = jax.nn.gelu(hidden + put(params["up"]["bias"], "model"))
    output = hidden @ put(params["down"]["kernel"], "model")
    return output + put(params["down"]["bias"])
