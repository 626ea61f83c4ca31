"""A Linen kernel that knows how it is to be cut."""

import jax
import jax.numpy as jnp
import pytest
from flax import linen as nn
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook.problems.partitioned_kernel_shape import (
    partitioned_kernel_shape,
)


@pytest.mark.parametrize("shape", [(5, 3), (1, 1), (2, 16)])
@pytest.mark.parametrize("features", [1, 10, 128])
def test_the_shape_of_the_kernel(
    shape: tuple[int, int], features: int
) -> None:
    """The result is the number of inputs, and the number of outputs."""
    result = partitioned_kernel_shape(0, jnp.ones(shape), features)

    assert result.shape == (2,)
    assert result.dtype == jnp.float32
    assert result.tolist() == [shape[1], features]


def test_the_kernel_is_boxed_with_its_names(
    monkeypatch: pytest.MonkeyPatch, mesh: jax.sharding.Mesh
) -> None:
    """What the solution initialises can be turned into a sharding."""
    made = []
    init = nn.Dense.init

    def spy(self: nn.Dense, *args: object) -> object:
        made.append(init(self, *args))
        return made[-1]

    monkeypatch.setattr(nn.Dense, "init", spy)
    partitioned_kernel_shape(0, jnp.ones((5, 3)), 8 * mesh.size)
    (variables,) = made
    kernel = variables["params"]["kernel"]
    sharding = nn.get_sharding(variables, mesh)["params"]["kernel"]

    assert isinstance(kernel, nn.Partitioned)
    assert kernel.names == (None, "model")
    assert sharding == NamedSharding(mesh, P(None, "model"))
    assert sharding.shard_shape(kernel.value.shape) == (3, 8)
