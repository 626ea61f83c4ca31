"""Inputs of calls of ``fsdp_step``."""

import jax
from jax.sharding import PartitionSpec as P


def squared_error(
    params: dict[str, dict[str, jax.Array]], batch: dict[str, jax.Array]
) -> jax.Array:
    """Return the mean squared error of an MLP on a batch.

    Args:
        params: What :func:`mlp_params` gives.
        batch: What :func:`examples` gives.

    Returns:
        The mean over the examples, and over the numbers of a target, as
        a float32 scalar.
    """
    up, down = params["up"], params["down"]
    hidden = jax.nn.gelu(batch["x"] @ up["kernel"] + up["bias"])
    output = hidden @ down["kernel"] + down["bias"]
    return ((output - batch["y"]) ** 2).mean()


FSDP_SPECS = {
    "up": {"kernel": P(None, "data"), "bias": P("data")},
    "down": {"kernel": P("data"), "bias": P(None)},
}
"""Specs for the parameters of :func:`~shardbook.inputs.squared_error`.

All are sharded over ``"data"``, except for the bias of ``"down"``.

:meta hide-value:
"""


def scaled_error(
    params: list[jax.Array], batch: tuple[jax.Array, jax.Array]
) -> jax.Array:
    """Return the mean squared error of a kernel and a scale on a batch.

    Args:
        params: A kernel, ``(in_dim, out_dim)``, and a scalar.
        batch: Inputs, ``(size, in_dim)``, and targets,
            ``(size, out_dim)``.

    Returns:
        The mean over the examples, and over the numbers of a target, as
        a float32 scalar.
    """
    (kernel, scale), (x, y) = params, batch
    return ((scale * x @ kernel - y) ** 2).mean()


SCALED_SPECS = [P("data", None), P()]
"""Specs for the parameters of :func:`~shardbook.inputs.scaled_error`.

:meta hide-value:
"""
