"""float32 weights, bfloat16 products and float32 sums over devices."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.mixed_precision_step import mixed_precision_step
from shardscope import program

IN, HIDDEN, OUT, ROWS = 16, 64, 24, 32


def loss(params: Any, batch: Any) -> Any:
    """Give the mean squared error of two layers, with tanh between."""
    x, y = batch
    hidden = jnp.tanh(x.astype(params["up"].dtype) @ params["up"])
    (down,) = params["down"]
    return (((hidden @ down).astype(jnp.float32) - y) ** 2).mean()


def numbers() -> tuple[Any, Any]:
    """Give parameters and a batch, in NumPy."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Any:
        return np.float32(rng.normal(size=shape) / shape[-1] ** 0.5)

    params = {"up": draw(IN, HIDDEN), "down": [draw(HIDDEN, OUT)]}
    return params, (draw(ROWS, IN), draw(ROWS, OUT))


def gradients_in_numpy(params: Any, batch: Any) -> tuple[float, Any]:
    """Give the loss and its gradients, in float64."""
    up, down, x, y = map(
        np.float64, (params["up"], params["down"][0], *batch)
    )
    hidden = np.tanh(x @ up)
    error = hidden @ down - y
    slope = 2 * error / error.size
    of_hidden = slope @ down.T * (1 - hidden**2)
    gradients = {"up": x.T @ of_hidden, "down": [hidden.T @ slope]}
    return (error**2).mean(), gradients


def placed(mesh: Mesh) -> tuple[Any, Any]:
    """Give parameters and a batch, sharded."""
    params, batch = inputs.laid_out(numbers(), P("data"), mesh)
    return params, batch


def operations(step: Any, *given: Any) -> dict[str, set[str]]:
    """Give the dtypes of what the step asks XLA for."""
    text = step.lower(*given).as_text()
    found: dict[str, set[str]] = {}
    for name, dtype in re.findall(
        r"stablehlo\.(all_\w+|reduce_scatter|dot_general|collective\w+)\b"
        r".*?: \(tensor<(?:\d+x)*(\w+)>",
        text,
        re.DOTALL,
    ):
        found.setdefault(name, set()).add(dtype)
    return found


def test_update_and_loss(mesh: Mesh) -> None:
    """Changes of the parameters are NumPy's, to the digits of bfloat16."""
    rate = 0.01
    params, batch = numbers()
    value, gradients = gradients_in_numpy(params, batch)

    new, found = mixed_precision_step(loss, rate, mesh)(*placed(mesh))

    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, value, rtol=0.01)
    for before, after, gradient in zip(
        *map(jax.tree.leaves, (params, new, gradients)), strict=True
    ):
        assert after.dtype == jnp.float32
        change = (before - np.float64(after)) / rate
        limit = 0.02 * np.abs(gradient).max()
        np.testing.assert_allclose(change, gradient, atol=limit)


def test_shardings_and_donation(mesh: Mesh) -> None:
    """New parameters take the place of the old ones, shard by shard."""
    params, batch = placed(mesh)
    old = jax.tree.leaves(params)
    report = program(mixed_precision_step(loss, 0.1, mesh), params, batch)

    new, value = mixed_precision_step(loss, 0.1, mesh)(params, batch)

    sharding = NamedSharding(mesh, P("data"))
    for leaf in jax.tree.leaves(new):
        assert leaf.sharding.is_equivalent_to(sharding, leaf.ndim)
    assert value.sharding.is_equivalent_to(NamedSharding(mesh, P()), 0)
    assert all(leaf.is_deleted() for leaf in old)
    shards = sum(leaf.nbytes for leaf in jax.tree.leaves(new))
    assert report.memory.donated == shards // mesh.shape["data"]


def test_one_program_for_all_steps(mesh: Mesh) -> None:
    """A step takes what the one before returned, and compiles once."""
    step = mixed_precision_step(loss, 0.05, mesh)
    params, batch = placed(mesh)
    values = []
    for _ in range(3):
        params, value = step(params, batch)
        values.append(float(value))

    assert step._cache_size() == 1  # type: ignore[attr-defined]
    assert values == sorted(values, reverse=True)


def test_sums_keep_small_terms() -> None:
    """On eight devices, 256 + 1 + 1 + ... - 255 is not rounded to 1."""
    count = jax.device_count()
    mesh = inputs.mesh_of(count, 1)
    size = max(2, count)
    params = inputs.laid_out([np.zeros(1008, np.float32)], P("data"), mesh)
    batch = inputs.large_and_small(size, 1008)

    step = mixed_precision_step(inputs.mean_score, size, mesh)
    (new,), value = step(params, inputs.laid_out(batch, P("data"), mesh))
    expected = np.full(1008, 1.0 - size)
    expected[batch[1]] += 1

    assert value == 0
    np.testing.assert_array_equal(new, expected)


def test_dtypes_that_it_asks_for(mesh: Mesh) -> None:
    """Gathers and products are bfloat16, and sums are float32."""
    step = mixed_precision_step(loss, 0.1, mesh)

    found = operations(step, *placed(mesh))

    assert found == {
        "all_gather": {"bf16"},
        "dot_general": {"bf16"},
        "reduce_scatter": {"f32"},
        "all_reduce": {"f32"},
    }


def test_what_the_devices_send(mesh: Mesh) -> None:
    """Twice the parameters in float32, because XLA's CPUs have no less."""
    n = mesh.shape["data"]
    params, batch = placed(mesh)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(params))

    report = program(mixed_precision_step(loss, 0.1, mesh), params, batch)

    assert report.sent("data") == 2 * (size + 4) * (n - 1) // n
    assert report.sent() == report.sent("data")
    assert report.collectives == (
        {"all-gather": 2, "reduce-scatter": 2, "all-reduce": 1}
        if n > 1
        else {}
    )


def test_sizes_that_do_not_divide() -> None:
    """A first dimension, or rows, that leave a remainder."""
    count = jax.device_count()
    if count == 1:
        pytest.skip("one device divides every size")
    step = mixed_precision_step(loss, 0.1, inputs.mesh_of(count, 1))
    params, (x, y) = numbers()
    odd = {"up": params["up"], "down": [np.zeros((HIDDEN + 1, OUT), "f")]}

    with pytest.raises(ValueError, match="evenly divisible"):
        step(params, (x[:-1], y[:-1]))
    with pytest.raises(ValueError, match="evenly divisible"):
        step(odd, (x, y))
    with pytest.raises(ValueError, match="rank"):
        step({**params, "scale": np.float32(1)}, (x, y))
