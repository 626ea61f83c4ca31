"""A mesh of all the devices that there are."""

import jax
import pytest
from jax.sharding import AxisType, Mesh


@pytest.fixture(scope="session")
def mesh() -> Mesh:
    """One axis, "model"."""
    return jax.make_mesh(
        (jax.device_count(),), ("model",), (AxisType.Auto,)
    )
