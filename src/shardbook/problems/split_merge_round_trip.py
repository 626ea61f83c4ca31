"""Split a model into graphdef and state, and merge them again."""

import jax
import jax.numpy as jnp
from flax import nnx


def split_merge_round_trip(
    seed: float, x: jax.Array, features: float
) -> jax.Array:
    """Return sums of a Linear's output before and after a round trip.

    The function calls a Linear with ``x.shape[-1]`` inputs and
    ``features`` outputs on ``x``, splits the Linear into graphdef and
    state, merges the two, and calls the merged Linear on ``x``.

    Args:
        seed: Seed of the parameters, an integer in ``[0, 2**32)``.
        x: Input, ``(in_dim,)``, a NumPy or JAX array of any real dtype
            that JAX promotes to float32.
        features: Number of outputs of the layer, an integer of at least 1.

    Returns:
        A float32 array, ``(3,)``, with the sum of the first output, the
        sum of the second, and the largest absolute difference of the two
        outputs, which is 0.0 where they are finite.

    Raises:
        ValueError: If ``seed`` or ``features`` is a fraction, NaN or
            infinite.

    References:
        Flax, *graph*, https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/graph.html
    """
    if seed % 1 or features % 1:
        got = f"{seed} and {features}"
        raise ValueError(f"seed and features must be whole, got {got}")
    seed, features = int(seed), int(features)
    # --- solution ---
    model = nnx.Linear(x.shape[-1], features, rngs=nnx.Rngs(seed))
    before = model(x)  # float32[features]
    graphdef, state = nnx.split(model)
    merged = nnx.merge(graphdef, state)
    after = merged(x)  # float32[features]
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])
