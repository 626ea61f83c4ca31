"""JAX compares a description in numbers, and its error is translated."""

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec as P


def feed_batch(rows, mesh):
    numbers = [rows.dtype.kind == "f", *rows.shape]
    numbers += [0] * (8 - len(numbers))
    try:
        multihost_utils.assert_equal(
            np.array(numbers, np.int32),
            "rows differ: a 1 first is for float32 and a 0 for int32",
        )
    except AssertionError as error:
        raise ValueError(str(error)) from None
    sharding = NamedSharding(mesh, P("data"))
    return jax.make_array_from_process_local_data(sharding, rows)
