"""An MLP of two layers on meshes of all the devices that there are."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.megatron_mlp import megatron_mlp
from shardscope import program

PARAMS = inputs.mlp_params(12, 40, 28)
X = inputs.normal(8, 12)


def test_values_and_sharding(mesh: Mesh) -> None:
    """From any device it gives NumPy's values, sharded over "data"."""
    up, down = jax.tree.map(np.asarray, (PARAMS["up"], PARAMS["down"]))
    h = np.asarray(X) @ up["kernel"] + up["bias"]
    gelu = (1 + np.tanh((2 / np.pi) ** 0.5 * (h + 0.044715 * h**3))) * h / 2
    expected = gelu @ down["kernel"] + down["bias"]
    params, x = jax.device_put((PARAMS, X), jax.devices()[-1])

    result = megatron_mlp(params, x, mesh)

    assert result.dtype == np.float32
    assert result.sharding == NamedSharding(mesh, P("data"))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)


def test_one_all_reduce_and_no_whole_kernel(mesh: Mesh) -> None:
    """The program takes shards and has one all-reduce over "model"."""
    data, model = mesh.shape["data"], mesh.shape["model"]
    report = program(megatron_mlp, PARAMS, X, mesh)
    sharded = 12 * 40 + 40 + 40 * 28
    numbers = sharded // model + 28 + 8 * 12 // data

    assert report.memory.arguments == 4 * numbers
    assert report.collectives == ({"all-reduce": 1} if model > 1 else {})


@pytest.mark.parametrize(("batch", "hidden"), [(7, 40), (8, 42)])
def test_sizes_that_do_not_divide(batch: int, hidden: int) -> None:
    """A batch or a hidden size that leaves a remainder is refused."""
    if jax.device_count() < 8:
        pytest.skip("a mesh of 2 by 4 needs eight devices")
    params, x = inputs.mlp_params(12, hidden, 28), inputs.normal(batch, 12)

    with pytest.raises(ValueError, match="evenly divide"):
        megatron_mlp(params, x, inputs.mesh_of(2, 4))
