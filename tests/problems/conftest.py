"""A mesh of all the devices."""

import jax
import pytest
from jax.sharding import AxisType, Mesh


@pytest.fixture(scope="session")
def mesh() -> Mesh:
    """Make a mesh of all devices, with the one axis "model"."""
    return jax.make_mesh(
        (jax.device_count(),), ("model",), (AxisType.Auto,)
    )
