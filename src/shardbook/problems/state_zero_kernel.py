"""Change one kind of leaf in a model's state, by its path."""

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
    """Return ``value`` as float32 if it has ``ndim`` axes or more."""
    wanted = f"{name} must be a non-empty real array, {ndim}-D or more"
    kinds = (jnp.floating, jnp.integer, jnp.bool_)
    if not isinstance(value, jax.Array | np.ndarray) or not any(
        jnp.issubdtype(value.dtype, kind) for kind in kinds
    ):
        raise TypeError(f"{wanted}, got {value!r}")
    if value.ndim < ndim or value.size == 0:
        raise ValueError(f"{wanted}, got shape {value.shape}")
    return jnp.asarray(value, jnp.float32)


def state_zero_kernel(
    seed: float, x: jax.Array, features: float
) -> jax.Array:
    """Return the output of a Linear with ones as bias and no kernel.

    A Linear of ``x.shape[-1]`` inputs and ``features`` outputs gets a bias
    of ones. It is split, the kernel in its state is set to zeros by path,
    it is merged and called on ``x``.

    Args:
        seed: Seed of the parameters, a whole number in ``[0, 2**32)``.
        x: Input, ``(..., in_dim)``, finite real numbers of any dtype.
        features: Outputs of the layer, a whole number of at least 1.

    Returns:
        A float32 array, ``(..., features)``, of ones where ``x`` is
        finite. A NaN or an infinity in a row of ``x`` makes that row NaN,
        as 0 * NaN is.

    Raises:
        TypeError: If ``seed`` or ``features`` is no number, or ``x`` is no
            array of real numbers.
        ValueError: If ``seed`` or ``features`` is not whole or out of
            range, or ``x`` has the wrong rank or an empty axis.

    References:
        JAX, *tree_map_with_path*,
        https://docs.jax.dev/en/latest/_autosummary/jax.tree_util.tree_map_with_path.html
    """
    seed = _whole("seed", seed, 0, 2**32)
    x = _real("x", x, 1)
    features = _whole("features", features, 1, math.inf)
    # --- solution ---
    model = nnx.Linear(x.shape[-1], features, rngs=nnx.Rngs(seed))
    model.bias[...] = jnp.ones((features,))  # float32[features]
    graphdef, state = nnx.split(model)
    state = jax.tree_util.tree_map_with_path(zero_if_kernel, state)
    return nnx.merge(graphdef, state)(x)  # float32[..., features]


def zero_if_kernel(
    path: tuple[jax.tree_util.KeyEntry, ...], leaf: jax.Array
) -> jax.Array:
    """Return zeros for a leaf that is named ``kernel``, any other as is.

    Args:
        path: Where the leaf is in the state, as
            :func:`jax.tree_util.tree_map_with_path` gives it.
        leaf: The leaf, of any shape, dtype and sharding.

    Returns:
        An array of the same shape and dtype. Its sharding is the same too,
        except under ``jax.jit``, where ``out_shardings`` has to ask for it.
    """
    # The path of a Param ends in the attribute "value", after its name.
    names = [
        key.key for key in path if isinstance(key, jax.tree_util.DictKey)
    ]
    return jnp.zeros_like(leaf) if names[-1:] == ["kernel"] else leaf
