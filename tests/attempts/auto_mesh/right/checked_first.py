"""It counts the devices itself, and changes the types of a mesh."""

import jax
from jax.sharding import AxisType, Mesh


def auto_mesh(data, model):
    needed = data * model
    if needed > len(jax.devices()):
        raise ValueError(f"there are no {needed} devices")
    explicit = jax.make_mesh([data, model], ["data", "model"])
    types = tuple(AxisType.Auto for _ in explicit.axis_names)
    return Mesh(explicit.devices, explicit.axis_names, axis_types=types)
