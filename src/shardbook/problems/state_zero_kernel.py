"""Set the kernel in a model's state to zeros, by its path."""

import jax
import jax.numpy as jnp
from flax import nnx


def state_zero_kernel(
    seed: float, x: jax.Array, features: float
) -> jax.Array:
    """Return the output of a Linear with a zero kernel and a bias of ones.

    The function builds a Linear with ``x.shape[-1]`` inputs and
    ``features`` outputs, writes ones into its bias, and splits the model
    into graphdef and state. It then finds the kernel in the state by its
    path, sets the kernel to zeros, and calls the merged model on ``x``.

    Args:
        seed: Seed of the parameters, a whole number in ``[0, 2**32)``.
        x: Input, ``(..., in_dim)``, a NumPy or JAX array of any real
            dtype that JAX promotes to float32.
        features: Outputs of the layer, a whole number of at least 1.

    Returns:
        A float32 array, ``(..., features)``, of ones. Where a row of ``x``
        has a NaN or an infinity, the row of the result is NaN instead,
        because 0 * NaN is NaN.

    Raises:
        ValueError: If ``seed`` or ``features`` is a fraction, NaN or
            infinite.

    References:
        JAX, *jax.tree.map_with_path*,
        https://docs.jax.dev/en/latest/_autosummary/jax.tree.map_with_path.html
    """
    if seed % 1 or features % 1:
        got = f"{seed} and {features}"
        raise ValueError(f"seed and features must be whole, got {got}")
    seed, features = int(seed), int(features)
    # --- solution ---
    model = nnx.Linear(x.shape[-1], features, rngs=nnx.Rngs(seed))
    model.bias[...] = jnp.ones((features,))  # float32[features]
    graphdef, state = nnx.split(model)
    state = jax.tree.map_with_path(zero_if_kernel, state)
    return nnx.merge(graphdef, state)(x)  # float32[..., features]


def zero_if_kernel(
    path: tuple[jax.tree_util.KeyEntry, ...], leaf: jax.Array
) -> jax.Array:
    """Return zeros for a leaf named ``kernel``, and any other unchanged.

    Args:
        path: Where the leaf is in the state, as
            :func:`jax.tree.map_with_path` gives it.
        leaf: The leaf, of any shape, dtype and sharding.

    Returns:
        An array of the same shape and dtype. If the leaf is committed, its
        sharding is the same too, except under ``jax.jit``: on Auto axes
        the compiler chooses, and on Explicit axes it is sure to be kept
        only while ``jax.set_mesh`` sets the mesh. ``out_shardings`` keeps
        it in both cases.
    """
    # The path of a Param ends in the attribute "value", after its name.
    names = [
        key.key for key in path if isinstance(key, jax.tree_util.DictKey)
    ]
    return jnp.zeros_like(leaf) if names[-1:] == ["kernel"] else leaf
