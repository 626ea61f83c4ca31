"""The last steps in numpy."""

import numpy as np
from flax import nnx


def split_merge_round_trip(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    before = np.asarray(model(x))
    graphdef, state = nnx.split(model)
    merged = nnx.merge(graphdef, state)
    after = np.asarray(merged(x))
    difference = np.abs(before - after).max()
    return np.stack([before.sum(), after.sum(), difference])
