"""Meshes of all the devices, of some, and of more than there are."""

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from shardbook.problems.auto_mesh import auto_mesh

COUNT = jax.device_count()
SHAPES = [
    (data, model)
    for data in range(1, COUNT + 1)
    for model in range(1, COUNT // data + 1)
]


@pytest.mark.parametrize(("data", "model"), SHAPES)
def test_names_sizes_types_and_devices(data: int, model: int) -> None:
    """The axes are Auto, over the first devices in rows."""
    mesh = auto_mesh(data, model)
    grid = np.array(jax.devices()[: data * model]).reshape(data, model)

    assert mesh.axis_names == ("data", "model")
    assert mesh.axis_types == (AxisType.Auto, AxisType.Auto)
    np.testing.assert_array_equal(mesh.devices, grid)


def test_the_compiler_lays_out_a_product() -> None:
    """A product whose layout Explicit axes would ask for is computed."""
    mesh = auto_mesh(1, COUNT)
    x = np.arange(4.0 * 8 * COUNT, dtype=np.float32).reshape(4, -1)
    columns = jax.device_put(x, NamedSharding(mesh, P(None, "model")))
    rows = jax.device_put(x.T, NamedSharding(mesh, P("model")))

    np.testing.assert_allclose(columns @ rows, x @ x.T, rtol=1e-5)


@pytest.mark.parametrize(
    ("data", "model"), [(COUNT + 1, 1), (1, COUNT + 1), (COUNT, 3)]
)
def test_more_devices_than_there_are(data: int, model: int) -> None:
    """A mesh that is too large is refused, and both numbers are named."""
    words = rf"devices {COUNT} .*\({data}, {model}\)"

    with pytest.raises(ValueError, match=words):
        auto_mesh(data, model)
