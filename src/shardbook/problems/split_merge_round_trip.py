"""Take a model apart with ``nnx.split``, and join it with ``nnx.merge``."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx


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


def split_merge_round_trip(
    seed: float, x: jax.Array, features: float
) -> jax.Array:
    """Return the sum of a Linear's output before and after a round trip.

    A Linear of ``x.shape[-1]`` inputs and ``features`` outputs is called
    on ``x``, split into graphdef and state, merged, and called again.

    Args:
        seed: Seed of the parameters, a whole number in ``[0, 2**32)``.
        x: Input, ``(in_dim,)``, real numbers of any dtype.
        features: Outputs of the layer, a whole number of at least 1.

    Returns:
        A float32 array, ``(3,)``, with the sum of the first output, the
        sum of the second, and the largest absolute difference of the two
        outputs, which is 0.0 where they are finite.

    Raises:
        TypeError: If ``seed`` or ``features`` is no number, or ``x`` is no
            array of real numbers.
        ValueError: If ``seed`` or ``features`` is not whole or out of
            range, or ``x`` has the wrong rank or an empty axis.

    References:
        Flax, *graph*, https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/graph.html
    """
    seed = _whole("seed", seed, 0, 2**32)
    x = _real("x", x, 1)
    features = _whole("features", features, 1, math.inf)
    # --- solution ---
    model = nnx.Linear(x.shape[-1], features, rngs=nnx.Rngs(seed))
    before = model(x)  # float32[features]
    graphdef, state = nnx.split(model)
    merged = nnx.merge(graphdef, state)
    after = merged(x)  # float32[features]
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])
