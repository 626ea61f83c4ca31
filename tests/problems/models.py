"""The arrays of models, as tests compare them."""

import jax
import numpy as np
from flax import nnx


def arrays(model: nnx.Module) -> dict[str, jax.Array]:
    """Give the arrays of a model by their paths."""
    flat = nnx.to_flat_state(nnx.state(model))
    return {".".join(map(str, path)): leaf[...] for path, leaf in flat}


def numbers(array: jax.Array) -> np.ndarray:
    """Give an array in NumPy, a random key by its numbers."""
    if jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    return np.asarray(array)
