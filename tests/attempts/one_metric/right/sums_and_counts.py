"""Each process adds up its shards in NumPy, and all exchange the sums."""

import numpy as np
from jax.experimental import multihost_utils


def one_metric(values, mesh):
    parts = [
        np.asarray(shard.data).astype(np.float32)
        for shard in values.addressable_shards
        if shard.replica_id == 0
    ]
    own = [sum(part.sum() for part in parts), sum(p.size for p in parts)]
    sums, counts = multihost_utils.process_allgather(np.float32(own)).T
    return float(sums.sum() / counts.sum())
