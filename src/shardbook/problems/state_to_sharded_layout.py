"""Say for each leaf of a model's state how it is cut over a mesh."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import PartitionSpec as P


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


def state_to_sharded_layout(
    seed: float, x: jax.Array, features: float
) -> jax.Array:
    """Return the number of leaves in the spec tree of a Linear's state.

    The state of a Linear of ``x.shape[-1]`` inputs and ``features``
    outputs is mapped to a tree of the same structure with a
    ``PartitionSpec`` for each array: ``P(None, "model")`` for the kernel,
    ``P("model")`` for the bias.

    Args:
        seed: Seed of the parameters, a whole number in ``[0, 2**32)``.
        x: Input, ``(batch, in_dim)``; only ``in_dim`` is used.
        features: Outputs of the layer, a whole number of at least 1.

    Returns:
        A float32 array, ``(1,)``, with the number of specs, ``[2.0]``.

    Raises:
        TypeError: If ``seed`` or ``features`` is no number, or ``x`` is no
            array of real numbers.
        ValueError: If ``seed`` or ``features`` is not whole or out of
            range, or ``x`` has the wrong rank or an empty axis.

    References:
        JAX, *Parallel programming*, https://docs.jax.dev/en/latest/parallel.html
    """
    seed = _whole("seed", seed, 0, 2**32)
    x = _real("x", x, 2)
    features = _whole("features", features, 1, math.inf)
    # --- solution ---
    model = nnx.Linear(x.shape[-1], features, rngs=nnx.Rngs(seed))
    _, state = nnx.split(model)
    specs = jax.tree.map(pick_spec, state)
    return jnp.array([len(jax.tree.leaves(specs))], jnp.float32)


def pick_spec(leaf: jax.Array) -> P:
    """Return the spec of a Linear's leaf: columns over ``"model"``.

    Args:
        leaf: A kernel, ``(in_dim, features)``, or a bias, ``(features,)``.

    Returns:
        ``P(None, "model")`` for a kernel, ``P("model")`` for a bias.
    """
    return P(None, "model") if leaf.ndim == 2 else P("model")
