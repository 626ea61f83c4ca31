"""The grid of devices in NumPy: axes of a Mesh are Auto by default."""

import jax
import numpy as np
from jax.sharding import Mesh


def auto_mesh(data, model):
    devices = np.array(jax.devices()[: data * model])
    return Mesh(devices.reshape(data, model), ("data", "model"))
