"""Meshes of all the devices."""

import jax
import pytest
from jax.sharding import AxisType, Mesh

from shardbook import inputs


@pytest.fixture(scope="session")
def line() -> Mesh:
    """Make a mesh of all devices, with the one axis "model"."""
    return jax.make_mesh(
        (jax.device_count(),), ("model",), (AxisType.Auto,)
    )


# What is wrong on these is wrong on 2 by 4 too, but for a size of one.
LINES = pytest.mark.exhaustive("a mesh of two dimensions shows the same")


@pytest.fixture(
    params=[pytest.param(1, marks=LINES), 2, pytest.param(8, marks=LINES)]
)
def mesh(request: pytest.FixtureRequest) -> Mesh:
    """Eight devices give 1 by 8, 2 by 4 and 8 by 1."""
    data = min(request.param, jax.device_count())
    return inputs.mesh_of(data, jax.device_count() // data)
