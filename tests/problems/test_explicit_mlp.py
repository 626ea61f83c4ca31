"""The sum of the branches and its gradients, on Explicit axes."""

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.explicit_mlp import explicit_mlp
from shardscope import program

ROWS, DIM = 16, 24
SIZES = [(8,), (16, 40), (8, 32, 16)]


def on(mesh: Mesh, hidden: tuple[int, ...] = SIZES[-1]) -> Any:
    """Place the branches and x on a mesh of Explicit axes."""
    there = inputs.explicit(mesh)
    x = inputs.laid_out(inputs.normal(ROWS, DIM), P("data"), there)
    return inputs.mlp_branches(DIM, hidden, there), x


def loss(params: Any, x: jax.Array) -> jax.Array:
    """Return the mean over the rows of the sum of their squares."""
    return (explicit_mlp(params, x) ** 2).sum(axis=1).mean()


step = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))


def numpy_gelu(x: Any) -> tuple[Any, Any]:
    """Compute gelu and its derivative."""
    root, cubic = np.sqrt(2 / np.pi), 0.044715
    tanh = np.tanh(root * (x + cubic * x**3))
    inner = root * (1 + 3 * cubic * x**2)
    slope = (1 + tanh) / 2 + x * (1 - tanh**2) * inner / 2
    return x * (1 + tanh) / 2, slope


def numpy_step(params: Any, x: Any) -> tuple[Any, Any, Any]:
    """Compute the sum of the branches and the gradients, in float64."""
    params, x = jax.tree.map(
        lambda leaf: np.asarray(leaf).astype("d"), (params, x)
    )
    hidden = [numpy_gelu(x @ branch["up"]) for branch in params]
    y = x + sum(
        units @ branch["down"]
        for (units, _), branch in zip(hidden, params, strict=True)
    )
    change = 2 * y / len(y)
    gradients, of_x = [], change
    for (units, slope), branch in zip(hidden, params, strict=True):
        before = change @ branch["down"].T * slope
        gradients.append({"up": x.T @ before, "down": units.T @ change})
        of_x = of_x + before @ branch["up"].T
    return y, gradients, of_x


@pytest.mark.parametrize("hidden", SIZES)
def test_values_and_types(mesh: Mesh, hidden: tuple[int, ...]) -> None:
    """The sum and the gradients are NumPy's, typed like the arguments."""
    params, x = on(mesh, hidden)
    y, *wanted = numpy_step(params, x)

    found = jax.jit(explicit_mlp)(params, x)
    value, gradients = step(params, x)

    assert str(jax.typeof(found)) == f"float32[{ROWS}@data,{DIM}]"
    np.testing.assert_allclose(found, y, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(value, (y**2).sum() / ROWS, rtol=1e-4)
    for got, want, like in zip(
        *map(jax.tree.leaves, (gradients, wanted, (params, x))), strict=True
    ):
        assert jax.typeof(got) == jax.typeof(like)
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("hidden", SIZES)
def test_what_the_devices_send(mesh: Mesh, hidden: tuple[int, ...]) -> None:
    """One sum over "model" each way, and the gradients over "data"."""
    data, model = mesh.shape["data"], mesh.shape["model"]
    params, x = on(mesh, hidden)
    forward = program(jax.jit(explicit_mlp), params, x)
    both = program(step, params, x)
    # A ring sends so many times the bytes of what it adds up.
    times = {n: 2 * (n - 1) / n for n in (data, model)}
    once = times[model] * 4 * ROWS // data * DIM
    kernels = times[data] * sum(
        leaf.nbytes // model for leaf in jax.tree.leaves(params)
    )

    assert forward.sent("model") == forward.sent() == once
    assert both.sent("model") == 2 * once
    assert both.sent("data") == int(kernels + times[data] * 4)
    assert both.sent() == both.sent("model") + both.sent("data")
    for each in (forward, both):
        assert set(each.collectives) <= {"all-reduce"}


def test_where_it_can_be_called(mesh: Mesh) -> None:
    """It needs neither jit nor a mesh that is set, and allows both."""
    params, x = on(mesh)
    wanted, *_ = numpy_step(params, x)

    results = [explicit_mlp(params, x)]
    with jax.set_mesh(inputs.explicit(mesh)):
        results += [
            explicit_mlp(params, x),
            jax.jit(explicit_mlp)(params, x),
        ]

    for found in results:
        assert jax.typeof(found) == jax.typeof(x)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_rematerialization(mesh: Mesh) -> None:
    """Under jax.checkpoint, the backward pass needs no sum again."""
    params, x = on(mesh)

    def again(params: Any, x: jax.Array) -> jax.Array:
        y = jax.checkpoint(explicit_mlp)(params, x)
        return (y**2).sum(axis=1).mean()

    report = program(
        jax.jit(jax.value_and_grad(again, argnums=(0, 1))), params, x
    )

    assert report.sent() == program(step, params, x).sent()


def test_auto_axes(mesh: Mesh) -> None:
    """On Auto axes, there is nothing that could be unreduced."""
    params, x = on(mesh)
    auto = jax.tree.map(
        lambda leaf: jax.device_put(
            np.asarray(leaf), NamedSharding(mesh, leaf.sharding.spec)
        ),
        (params, x),
    )

    with pytest.raises(ValueError, match="of type `Explicit`"):
        jax.jit(explicit_mlp)(*auto)


def test_replicated_kernels(mesh: Mesh) -> None:
    """Kernels that are not sharded over "model" are refused by jax."""
    params, x = on(mesh)
    whole = jax.reshard(params, NamedSharding(inputs.explicit(mesh), P()))

    with pytest.raises(Exception, match="equal to the contracting specs"):
        jax.jit(explicit_mlp)(whole, x)
