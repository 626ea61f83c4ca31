"""A scan over layers whose parameters are sharded."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.scan_layers import scan_layers
from shardscope import program

LAYERS, DIM, HIDDEN, ROWS = 6, 8, 16, 24
SPECS = {
    "mlp": [P(None, None, "data"), P(None, "data")],
    "bias": P(None, "data"),
    "scale": P(),
    "rate": P(None),
}


def block(params: Any, x: jax.Array) -> jax.Array:
    """Return a row plus what a small MLP makes of that row."""
    up, down = params["mlp"]
    hidden = jnp.tanh(x * params["scale"] @ up + params["bias"])
    return x + params["rate"] * (hidden @ down)


def numbers() -> Any:
    """Give the parameters of all layers, in NumPy."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Any:
        return np.float32(rng.normal(size=(LAYERS, *shape)) / 2)

    return {
        "mlp": [draw(DIM, HIDDEN), draw(HIDDEN, DIM)],
        "bias": draw(HIDDEN),
        "scale": draw(DIM),
        "rate": draw(),
    }


def rows(count: int = ROWS) -> Any:
    """Give x, in NumPy."""
    rng = np.random.default_rng(1)
    return np.float32(rng.normal(size=(count, DIM)))


def by_loop(stacked: Any, x: Any) -> Any:
    """Run the layers one after the other, in NumPy."""
    for i in range(LAYERS):
        up, down = (each[i] for each in stacked["mlp"])
        before = x * stacked["scale"][i] @ up + stacked["bias"][i]
        x = x + stacked["rate"][i] * (np.tanh(before) @ down)
    return x


def scanned(mesh: Mesh, stacked: Any, x: Any) -> Any:
    """Run the solution."""
    return scan_layers(block, stacked, x, SPECS, mesh)


def placed(mesh: Mesh) -> tuple[Any, Any]:
    """Give the parameters and x, sharded."""
    return (
        inputs.laid_out(numbers(), SPECS, mesh),
        inputs.laid_out(rows(), P("data"), mesh),
    )


def gradient(mesh: Mesh, stacked: Any, x: Any) -> Any:
    """Give the function that takes both gradients, and its arguments."""

    def loss(stacked: Any, x: Any) -> Any:
        return (scanned(mesh, stacked, x) ** 2).sum(axis=1).mean()

    return jax.jit(jax.grad(loss, argnums=(0, 1))), stacked, x


def test_values(mesh: Mesh) -> None:
    """The layers run in their order, and the rows stay where they are."""
    y = jax.jit(scanned, static_argnums=0)(mesh, *placed(mesh))

    expected = by_loop(numbers(), rows())
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    sharding = NamedSharding(mesh, P("data"))
    assert y.sharding.is_equivalent_to(sharding, 2)
    assert y.dtype == jnp.float32


def test_gradients_and_their_shardings(mesh: Mesh) -> None:
    """They agree with differences in NumPy, and are sharded by specs."""
    step, stacked, x = gradient(mesh, *placed(mesh))
    gradients, of_x = step(stacked, x)

    def loss(stacked: Any, x: Any) -> Any:
        return (by_loop(stacked, x) ** 2).sum(axis=1).mean()

    small = 1e-5
    plain = jax.tree.map(np.float64, (numbers(), rows()))
    leaves, tree = jax.tree.flatten(plain)
    rng = np.random.default_rng(2)
    for i, found in enumerate(jax.tree.leaves((gradients, of_x))):
        along = rng.normal(size=found.shape)
        up, down = (
            loss(
                *tree.unflatten(
                    [
                        *leaves[:i],
                        leaves[i] + sign * along,
                        *leaves[i + 1 :],
                    ]
                )
            )
            for sign in (small, -small)
        )
        slope = (up - down) / (2 * small)
        total = np.vdot(along, np.float64(found))
        np.testing.assert_allclose(total, slope, rtol=1e-4, atol=1e-4)
    specs = jax.tree.leaves(SPECS)
    for found, spec in zip(jax.tree.leaves(gradients), specs, strict=True):
        wanted = NamedSharding(mesh, spec)
        assert found.sharding.is_equivalent_to(wanted, found.ndim)


def test_what_the_devices_send(mesh: Mesh) -> None:
    """Two gathers and a reduce-scatter in each turn, for each array."""
    n = mesh.shape["data"]
    step, stacked, x = gradient(mesh, *placed(mesh))
    forward = program(jax.jit(scanned, static_argnums=0), mesh, stacked, x)
    report = program(step, stacked, x)
    sharded = sum(
        leaf.nbytes
        for leaf, spec in zip(
            jax.tree.leaves(stacked), jax.tree.leaves(SPECS), strict=True
        )
        if "data" in spec
    )
    moved = [
        each
        for each in report.communication
        if each.kind in ("all-gather", "reduce-scatter")
    ]

    assert forward.sent() == sharded * (n - 1) // n
    assert forward.collectives == ({"all-gather": 18} if n > 1 else {})
    assert len(moved) == (9 if n > 1 else 0)
    assert all(each.times == LAYERS for each in moved)
    assert sum(each.sent * each.times for each in moved) == (
        3 * sharded * (n - 1) // n
    )
    # Gradients of what is replicated are added up after the loop.
    reduced = [c for c in report.communication if c.kind == "all-reduce"]
    assert len(reduced) == (1 if n > 1 else 0)
    assert all(each.times == 1 for each in reduced)


def test_what_a_device_holds() -> None:
    """One more layer needs one more x, and gradients to be reduced."""
    mesh = inputs.mesh_of(jax.device_count(), 1)

    def report(layers: int) -> Any:
        specs = inputs.STACKED_SPECS
        stacked = inputs.stacked_params(layers, 64, 256)
        x = inputs.laid_out(
            inputs.normal(jax.device_count(), 64), P("data"), mesh
        )

        def loss(stacked: Any, x: Any) -> Any:
            y = scan_layers(inputs.residual_block, stacked, x, specs, mesh)
            return (y**2).mean()

        arrays = inputs.laid_out(stacked, specs, mesh)
        return program(jax.jit(jax.grad(loss)), arrays, x)

    few, many = report(12), report(24)

    more = many.memory.temporaries - few.memory.temporaries
    assert 12 * 64 * 4 <= more <= 3 * 12 * 64 * 4
    layer = 4 * (2 * 64 * 256 + 256 + 2 * 64)
    rows = 24 * 64 * 4  # float32[24,1,64]: the x of each layer
    assert many.memory.temporaries < 2 * (layer + rows)
    assert abs(len(many.text) - len(few.text)) < 1000


def test_another_axis(mesh: Mesh) -> None:
    """Parameters that "model" shards as well are refused by jax."""
    specs = SPECS | {"bias": P(None, ("data", "model"))}

    with pytest.raises(TypeError, match="manual axis types do not match"):
        jax.eval_shape(
            lambda *given: scan_layers(block, *given, specs, mesh),
            *placed(mesh),
        )


def test_sizes_that_do_not_divide() -> None:
    """A batch, or a dimension of a parameter, that leaves a remainder."""
    if jax.device_count() < 2:
        pytest.skip("one device divides every size")
    mesh = inputs.mesh_of(jax.device_count(), 1)

    with pytest.raises(ValueError, match="evenly divisible"):
        scan_layers(block, numbers(), rows(ROWS - 1), SPECS, mesh)
    odd = numbers() | {"bias": np.zeros((LAYERS, HIDDEN + 1), "f")}
    with pytest.raises(ValueError, match="evenly divisible"):
        scan_layers(block, odd, rows(), SPECS, mesh)
