"""Two nnx.Linear, whose state is laid out by path."""

import jax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P

SPECS = {
    "up": {"kernel": P(None, "model"), "bias": P("model")},
    "down": {"kernel": P("model"), "bias": P()},
}


class MLP(nnx.Module):
    def __init__(self, params):
        for name, layer in params.items():
            linear = nnx.Linear(*layer["kernel"].shape, rngs=nnx.Rngs(0))
            linear.kernel = nnx.Param(layer["kernel"])
            linear.bias = nnx.Param(layer["bias"])
            setattr(self, name, linear)

    def __call__(self, x):
        return self.down(jax.nn.gelu(self.up(x)))


def megatron_mlp(params, x, mesh):
    layout = jax.tree.map(lambda spec: NamedSharding(mesh, spec), SPECS)
    model = MLP(jax.device_put(params, layout))
    x = jax.device_put(x, NamedSharding(mesh, P("data")))
    return jax.jit(lambda model, x: model(x))(model, x)
