"""Note on a Linen parameter, where it is defined, how it is to be cut."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn


def _whole(name: str, value: float, low: int, high: float) -> int:
    """Return ``value`` as an int if it is whole and in [low, high)."""
    number = value
    # A key and an abstract array have no axes either, but no value.
    if hasattr(value, "__float__") and getattr(value, "shape", None) == ():
        number = value.item()
    wanted = f"{name} must be a whole number in [{low}, {high})"
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError(f"{wanted}, got {value!r}")
    if not low <= number < high or number != int(number):
        raise ValueError(f"{wanted}, got {value!r}")
    return int(number)


def _real(name: str, value: jax.Array, ndim: int) -> jax.Array:
    """Return ``value`` as float32 if it has ``ndim`` axes, none empty."""
    wanted = f"{name} must be a non-empty {ndim}-D array of real numbers"
    kinds = (jnp.floating, jnp.integer, jnp.bool_)
    if not isinstance(value, jax.Array | np.ndarray) or not any(
        jnp.issubdtype(value.dtype, kind) for kind in kinds
    ):
        raise TypeError(f"{wanted}, got {value!r}")
    if value.ndim != ndim or value.size == 0:
        raise ValueError(f"{wanted}, got shape {value.shape}")
    return jnp.asarray(value, jnp.float32)


def partitioned_kernel_shape(
    seed: float, x: jax.Array, features: float
) -> jax.Array:
    """Return the shape of a kernel that is boxed with its axis names.

    A ``Dense`` of ``features`` outputs, whose kernel is annotated with the
    names ``(None, "model")``, is initialised on ``x``. The box around the
    kernel leaves the shape of the array in it as it is.

    Args:
        seed: Seed of the parameters, a whole number in ``[0, 2**32)``.
        x: Input, ``(batch, in_dim)``, real numbers of any dtype.
        features: Outputs of the layer, a whole number of at least 1.

    Returns:
        A float32 array, ``(2,)``, with ``[in_dim, features]``.

    Raises:
        TypeError: If ``seed`` or ``features`` is no number, or ``x`` is no
            array of real numbers.
        ValueError: If ``seed`` or ``features`` is not whole or out of
            range, or ``x`` has the wrong rank or an empty axis.

    References:
        Flax, *SPMD*,
        https://flax-linen.readthedocs.io/en/latest/api_reference/flax.linen/spmd.html
    """
    seed = _whole("seed", seed, 0, 2**32)
    x = _real("x", x, 2)
    features = _whole("features", features, 1, math.inf)
    # --- solution ---
    kernel_init = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    layer = nn.Dense(features, kernel_init=kernel_init)
    variables = layer.init(jax.random.key(seed), x)
    kernel = variables["params"]["kernel"].value  # float32[in_dim,features]
    return jnp.array(kernel.shape, jnp.float32)
