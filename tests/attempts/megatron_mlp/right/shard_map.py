"""The program of one device, with its psum written by hand."""

import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def megatron_mlp(params, x, mesh):
    layers = {
        "up": {"kernel": P(None, "model"), "bias": P("model")},
        "down": {"kernel": P("model"), "bias": P()},
    }
    specs = (layers, P("data"))

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=specs, out_specs=P("data"))
    def forward(params, x):
        up, down = params["up"], params["down"]
        hidden = jax.nn.gelu(x @ up["kernel"] + up["bias"])
        term = hidden @ down["kernel"]
        return jax.lax.psum(term, "model") + down["bias"]

    shardings = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)
    return forward(*jax.device_put((params, x), shardings))
