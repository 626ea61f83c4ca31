"""Choose a ``PartitionSpec`` for each leaf of a model's state."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P


def state_to_sharded_layout(
    seed: float, x: jax.Array, features: float
) -> jax.Array:
    """Return the number of specs for a Linear's state, as float32[1].

    The specs are a tree of the same structure as the state, with
    ``P(None, "model")`` for the kernel and ``P("model")`` for the bias.

    Args:
        seed: Seed of the parameters, a whole number in ``[0, 2**32)``.
        x: Input, ``(batch, in_dim)``, a NumPy or JAX array; only
            ``in_dim`` is used.
        features: Outputs of the layer, a whole number of at least 1.

    Returns:
        The number of leaves in the tree of specs, ``[2.0]``, as a float32
        array ``(1,)``.

    Raises:
        ValueError: If ``seed`` or ``features`` is a fraction, NaN or
            infinite.

    References:
        JAX, *Parallel programming*, https://docs.jax.dev/en/latest/parallel.html
    """
    if seed % 1 or features % 1:
        got = f"{seed} and {features}"
        raise ValueError(f"seed and features must be whole, got {got}")
    seed, features = int(seed), int(features)
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
