"""A Linen kernel that is annotated with mesh axis names."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook.problems.partitioned_kernel_shape import (
    partitioned_kernel_shape,
)


@pytest.mark.parametrize("shape", [(5, 3), (1, 1), (2, 16)])
@pytest.mark.parametrize("features", [1, 10, 128])
def test_the_shape_of_the_kernel(
    shape: tuple[int, int], features: int
) -> None:
    """partitioned_kernel_shape returns the inputs and the outputs."""
    result = partitioned_kernel_shape(0, jnp.ones(shape), features)

    assert result.shape == (2,)
    assert result.dtype == jnp.float32
    np.testing.assert_array_equal(result, [shape[1], features])


def test_the_kernel_is_boxed_with_its_names(
    monkeypatch: pytest.MonkeyPatch, line: Mesh
) -> None:
    """partitioned_kernel_shape makes a kernel that a mesh can shard."""
    made = []
    init = nn.Dense.init
    x, features = jnp.ones((5, 3)), 8 * line.size
    plain = nn.Dense(features).init(jax.random.key(7), x)

    def spy(self: nn.Dense, *args: Any) -> Any:
        made.append(init(self, *args))
        return made[-1]

    monkeypatch.setattr(nn.Dense, "init", spy)
    partitioned_kernel_shape(7, x, features)
    (variables,) = made
    kernel = variables["params"]["kernel"]
    sharding = nn.get_sharding(variables, line)["params"]["kernel"]

    assert isinstance(kernel, nn.Partitioned)
    assert kernel.names == (None, "model")
    assert sharding == NamedSharding(line, P(None, "model"))
    assert sharding.shard_shape(kernel.value.shape) == (3, 8)
    np.testing.assert_array_equal(kernel.value, plain["params"]["kernel"])
