"""Turn values that are spread over all processes into one float."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def one_metric(values: jax.Array, mesh: Mesh) -> float:
    """Return the mean of an array that no process holds whole.

    Every process calls this, and every process gets the mean, so any of
    them can print it. Each device adds up its own values, and one
    all-reduce of a few bytes adds up the sums.

    Args:
        values: The values, such as the loss of each row, of any shape and
            of a float dtype or int32. The array may be sharded over any
            axes of the mesh, or replicated.
        mesh: Mesh of the devices of all processes.

    Returns:
        The mean in float32, as a Python float, the same in all processes.

    Example:
        With the losses ``float32[64@data]`` of 64 rows on eight devices,
        a device adds up eight of them, and sends 7 bytes in the
        all-reduce.

    References:
        JAX, *Multi-process programming*,
        https://docs.jax.dev/en/latest/multi_process.html
    """
    # --- solution ---
    return float(_mean(values, mesh))


# At the top of the file, so that jit knows the function from call to call.
@partial(jax.jit, static_argnums=1)
def _mean(values: jax.Array, mesh: Mesh) -> jax.Array:
    mean = jnp.mean(values, dtype=jnp.float32)
    # Every process holds what is replicated, and can read it.
    return jax.lax.with_sharding_constraint(mean, NamedSharding(mesh, P()))
