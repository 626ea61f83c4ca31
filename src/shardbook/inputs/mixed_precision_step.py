"""Inputs of calls of ``mixed_precision_step``."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def mlp_kernels(in_dim: int, hidden: int, out_dim: int) -> dict[str, Any]:
    """Return the kernels of :func:`mlp_error`.

    Args:
        in_dim: Inputs of ``"up"``.
        hidden: Outputs of ``"up"``, and inputs of ``"down"``.
        out_dim: Outputs of ``"down"``.

    Returns:
        Float32 ``"up"``, ``(in_dim, hidden)``, and ``"down"``,
        ``(hidden, out_dim)``, of NumPy, and so large that outputs are
        about as large as inputs.
    """
    rng = np.random.default_rng(1)
    shapes = {"up": (in_dim, hidden), "down": (hidden, out_dim)}
    return {
        name: np.float32(rng.normal(size=shape) / shape[0] ** 0.5)
        for name, shape in shapes.items()
    }


def mlp_error(
    params: dict[str, jax.Array], batch: dict[str, jax.Array]
) -> jax.Array:
    """Return the mean squared error of an MLP, multiplied in its dtype.

    Args:
        params: What :func:`mlp_kernels` gives, in any dtype. Inputs and
            hidden units are cast to that dtype, and outputs to float32.
        batch: What :func:`examples` gives.

    Returns:
        The mean over the examples, and over the numbers of a target, as
        a float32 scalar.
    """
    x = batch["x"].astype(params["up"].dtype)
    output = jax.nn.gelu(x @ params["up"]) @ params["down"]
    error = output.astype(jnp.float32) - batch["y"]
    return (error**2).mean()


def mean_score(params: list[jax.Array], batch: Any) -> jax.Array:
    """Return the mean product of rows with a vector, less a label's entry.

    Args:
        params: A list with the vector, ``(dim,)``, in any dtype. The rows
            are cast to it, and products and entries to float32.
        batch: Rows, ``(size, dim)``, and for each the index of an entry of
            the vector, integers, ``(size,)``.

    Returns:
        The mean over the rows, as a float32 scalar. Its gradient is the
        mean of the rows, less at each index the share of rows that have it.
    """
    (vector,) = params
    rows, labels = batch
    scores = rows.astype(vector.dtype) @ vector
    own = jnp.take_along_axis(vector, labels, 0)
    mean: jax.Array = (scores.astype(jnp.float32) - own).mean()
    return mean


def large_and_small(size: int, dim: int) -> Any:
    """Return rows of ones, but for the first and the last, and labels.

    Args:
        size: The number of rows, two or more.
        dim: The numbers in a row.

    Returns:
        Float32 ``(size, dim)`` and int32 ``(size,)``, of NumPy. The first
        row is 256 and the last is -255, so that a sum that begins with the
        first and is rounded to bfloat16 loses the rows between. The labels
        go down from 1,000, and bfloat16 counts to 256: ``dim`` is larger.
    """
    rows = np.ones((size, dim), np.float32)
    rows[0], rows[-1] = 256, -255
    return rows, np.int32(1000 - np.arange(size))
