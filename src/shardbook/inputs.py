"""The inputs of graded calls, so that a call in a verdict runs when pasted.

A verdict prints the call that was graded, such as
``megatron_mlp(mlp_params(16, 40, 24), normal(8, 16), mesh_of(2, 4))``, with
the line that imports these names.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh

__all__ = ["committed", "mesh_of", "mlp_params", "normal", "with_nan"]


def mesh_of(data: int, model: int) -> Mesh:
    """Return a mesh of Auto axes ``"data"`` and ``"model"``.

    Args:
        data: Devices along ``"data"``.
        model: Devices along ``"model"``.

    Returns:
        A mesh of the first ``data * model`` devices.

    Raises:
        ValueError: If there are fewer devices.
    """
    needed, found = data * model, jax.device_count()
    if needed > found:
        raise ValueError(
            f"mesh_of({data}, {model}) needs {needed} devices, and there "
            f"are {found}. Before JAX is used, run "
            f'jax.config.update("jax_num_cpu_devices", {needed}).'
        )
    return jax.make_mesh(
        (data, model),
        ("data", "model"),
        (AxisType.Auto, AxisType.Auto),
        devices=jax.devices()[:needed],
    )


def normal(*shape: int, seed: int = 0) -> jax.Array:
    """Return float32 numbers from a standard normal distribution.

    Args:
        *shape: The shape of the array.
        seed: The seed of the numbers.

    Returns:
        An array on the first device, uncommitted.
    """
    values = np.random.default_rng(seed).normal(size=shape)
    return jnp.asarray(values, jnp.float32)


def committed(tree: Any) -> Any:
    """Return the arrays of a tree, committed to the last device."""
    return jax.device_put(tree, jax.devices()[-1])


def with_nan(x: jax.Array) -> jax.Array:
    """Return an array of floats with NaN as its last entry."""
    return x.at[(-1,) * x.ndim].set(jnp.nan)


def mlp_params(
    in_dim: int, hidden: int, out_dim: int
) -> dict[str, dict[str, jax.Array]]:
    """Return the parameters of two dense layers, ``"up"`` and ``"down"``.

    Args:
        in_dim: Inputs of ``"up"``.
        hidden: Outputs of ``"up"``, and inputs of ``"down"``.
        out_dim: Outputs of ``"down"``.

    Returns:
        For each layer a float32 ``"kernel"``, ``(inputs, outputs)``, and
        ``"bias"``, ``(outputs,)``, on the first device, uncommitted.
    """
    return {
        "up": {
            "kernel": normal(in_dim, hidden, seed=1),
            "bias": normal(hidden, seed=2),
        },
        "down": {
            "kernel": normal(hidden, out_dim, seed=3),
            "bias": normal(out_dim, seed=4),
        },
    }
