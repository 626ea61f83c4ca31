"""The shards are placed one by one, and a program compares numbers."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

DTYPES = ("float32", "int32")


def feed_batch(rows, mesh):
    ours = np.zeros(8, np.int32)
    ours[:2] = DTYPES.index(str(rows.dtype)), rows.ndim
    ours[2 : 2 + rows.ndim] = rows.shape
    everyone = NamedSharding(mesh, P(mesh.axis_names))
    table = jax.make_array_from_callback(
        (mesh.size, 8), everyone, lambda index: ours[None]
    )
    everywhere = NamedSharding(mesh, P())
    extremes = jax.jit(
        lambda x: jnp.stack([x.min(axis=0), x.max(axis=0)]),
        out_shardings=everywhere,
    )
    lows, highs = np.asarray(extremes(table))
    if (lows != highs).any():
        names = [DTYPES[lows[0]], DTYPES[highs[0]]]
        raise ValueError(
            f"rows differ between processes: {names}, rank and shape from "
            f"{lows[1:]} to {highs[1:]}"
        )
    sharding = NamedSharding(mesh, P("data"))
    parts = jax.process_count() if mesh.shape["data"] > 1 else 1
    shape = (parts * len(rows), *rows.shape[1:])
    indices = sharding.addressable_devices_indices_map(shape)
    starts = {d: i[0].indices(shape[0])[0] for d, i in indices.items()}
    first = min(starts.values())
    count = shape[0] // mesh.shape["data"]
    shards = [
        jax.device_put(rows[start - first :][:count], device)
        for device, start in starts.items()
    ]
    return jax.make_array_from_single_device_arrays(
        shape, sharding, shards, dtype=rows.dtype
    )
