"""Annotate a Linen kernel, where it is defined, with mesh axis names."""

import jax
import jax.numpy as jnp
from flax import linen as nn


def partitioned_kernel_shape(
    seed: float, x: jax.Array, features: float
) -> jax.Array:
    """Return the shape of a kernel in a box with mesh axis names.

    The kernel belongs to a ``Dense`` that is annotated with the names
    ``(None, "model")`` and initialized on ``x``. Its box doesn't change
    the shape of the array, and without a mesh nothing is sharded.

    Args:
        seed: Seed of the parameters, a whole number in ``[0, 2**32)``.
        x: Input, ``(batch, in_dim)``, a NumPy or JAX array of any real
            dtype that JAX promotes to float32.
        features: Outputs of the layer, a whole number from 1 to ``2**24``:
            float32 can't represent every larger one.

    Returns:
        A float32 array, ``(2,)``, with ``[in_dim, features]``.

    Raises:
        ValueError: If ``seed`` or ``features`` is a fraction, NaN or
            infinite.

    References:
        Flax, *SPMD*,
        https://flax-linen.readthedocs.io/en/latest/api_reference/flax.linen/spmd.html
    """
    if seed % 1 or features % 1:
        got = f"{seed} and {features}"
        raise ValueError(f"seed and features must be whole, got {got}")
    seed, features = int(seed), int(features)
    # --- solution ---
    kernel_init = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    layer = nn.Dense(features, kernel_init=kernel_init)
    variables = layer.init(jax.random.key(seed), x)
    kernel = variables["params"]["kernel"].value  # float32[in_dim,features]
    return jnp.array(kernel.shape, jnp.float32)
