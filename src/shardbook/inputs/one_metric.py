"""Inputs of calls of ``one_metric``."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def spread(rows: np.ndarray, spec: P, mesh: Mesh) -> jax.Array:
    """Return an array that is sharded over the devices of all processes.

    Args:
        rows: The whole array, which each process has.
        spec: How the result is sharded.
        mesh: The mesh of all processes.
    """
    sharding = NamedSharding(mesh, spec)
    return jax.make_array_from_callback(
        rows.shape, sharding, lambda index: rows[index]
    )
