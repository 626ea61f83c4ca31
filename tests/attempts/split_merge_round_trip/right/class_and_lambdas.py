"""A class with the steps, lambdas for the numbers."""

import functools

import jax.numpy as jnp
from flax import nnx


class RoundTrip:
    merge = staticmethod(nnx.merge)

    def __init__(self, model):
        self.parts = nnx.split(model)

    def back(self):
        return functools.reduce(self.merge, self.parts)


def split_merge_round_trip(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    outputs = [each(x) for each in (model, RoundTrip(model).back())]
    largest = lambda a, b: jnp.linalg.norm(a - b, ord=jnp.inf)
    return jnp.stack([*map(jnp.sum, outputs), largest(*outputs)])
