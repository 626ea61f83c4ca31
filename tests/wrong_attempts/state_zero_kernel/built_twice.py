# wrong: structure
"""The second Linear is built with zeros and ones at once."""

from flax import nnx


def state_zero_kernel(seed, x, features):
    model = nnx.Linear(
        x.shape[-1],
        int(features),
        kernel_init=nnx.initializers.zeros,
        bias_init=nnx.initializers.ones,
        rngs=nnx.Rngs(int(seed)),
    )
    graphdef, state = nnx.split(model)
    return nnx.merge(graphdef, state)(x)
