"""A constraint on the hidden units, and none on the result."""

import jax
from jax.sharding import PartitionSpec as P


def megatron_mlp(params, x, mesh):
    @jax.jit
    def forward(params, x):
        hidden = x @ params["up"]["kernel"] + params["up"]["bias"]
        hidden = jax.lax.with_sharding_constraint(
            jax.nn.gelu(hidden), P("data", "model")
        )
        output = hidden @ params["down"]["kernel"] + params["down"]["bias"]
        return jax.lax.with_sharding_constraint(output, P("data"))

    up, down = {"kernel": P(None, "model"), "bias": P("model")}, P("model")
    specs = {"up": up, "down": {"kernel": down, "bias": P()}}
    with jax.set_mesh(mesh):
        return forward(*jax.device_put((params, x), (specs, P("data"))))
