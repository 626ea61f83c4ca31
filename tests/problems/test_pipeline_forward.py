"""A pipeline and its gradients, on meshes of all the devices there are."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.pipeline_forward import pipeline_forward
from shardscope import program

LAYERS, BATCH, DIM = 8, 48, 12


def layer(params: Any, x: Any) -> jax.Array:
    """Give the sine of a dense layer."""
    return jnp.sin(x @ params["kernel"] + params["bias"])


def arguments(mesh: Mesh) -> tuple[Any, Any]:
    """Give placed layers and rows."""
    stacked = {
        "kernel": inputs.normal(LAYERS, DIM, DIM, seed=1) / 3,
        "bias": inputs.normal(LAYERS, DIM, seed=2),
    }
    return (
        inputs.laid_out(stacked, P("model"), mesh),
        inputs.laid_out(inputs.normal(BATCH, DIM), P("data"), mesh),
    )


def forward_on(mesh: Mesh, count: int, block: Any = layer) -> Any:
    """Give the pipeline, compiled."""
    return jax.jit(
        lambda stacked, x: pipeline_forward(block, stacked, x, mesh, count)
    )


def gradient_on(mesh: Mesh, count: int, block: Any = layer) -> Any:
    """Give the gradients of half the sum of squares, compiled."""
    function = forward_on(mesh, count, block)

    def loss(stacked: Any, x: Any) -> jax.Array:
        return (function(stacked, x) ** 2).sum() / 2

    return jax.jit(jax.grad(loss, argnums=(0, 1)))


def numpy_layers(stacked: Any, x: Any) -> tuple[Any, Any]:
    """Compute the output and the gradients in NumPy, in float64."""
    kernels, biases, y = (
        np.asarray(each, "d")
        for each in (stacked["kernel"], stacked["bias"], x)
    )
    kept = []
    for kernel, bias in zip(kernels, biases, strict=True):
        kept.append((y, y @ kernel + bias))
        y = np.sin(kept[-1][1])
    slope = y
    of_kernels, of_biases = np.zeros_like(kernels), np.zeros_like(biases)
    for number, (taken, sum_) in reversed([*enumerate(kept)]):
        slope = slope * np.cos(sum_)
        of_kernels[number] = taken.T @ slope
        of_biases[number] = slope.sum(axis=0)
        slope = slope @ kernels[number].T
    return y, ({"kernel": of_kernels, "bias": of_biases}, slope)


@pytest.mark.parametrize("count", [1, 3])
def test_values_and_shardings(mesh: Mesh, count: int) -> None:
    """Output and gradients are NumPy's, sharded like the arguments."""
    given = arguments(mesh)
    expected, slopes = numpy_layers(*given)

    y = forward_on(mesh, count)(*given)
    found = gradient_on(mesh, count)(*given)

    assert y.dtype == np.float32
    assert y.sharding.is_equivalent_to(NamedSharding(mesh, P("data")), 2)
    np.testing.assert_allclose(y, expected, atol=1e-5)
    for got, want, like in zip(
        *map(jax.tree.leaves, (found, slopes, given)), strict=True
    ):
        limit = 1e-5 * np.abs(want).max()
        np.testing.assert_allclose(got, want, atol=limit)
        assert got.sharding.is_equivalent_to(like.sharding, like.ndim)


def test_a_block_that_divides_by_the_length_of_a_row(mesh: Mesh) -> None:
    """No NaN of a row of zeros reaches output or gradients."""
    kernels = inputs.normal(LAYERS, DIM, DIM) / 4
    given = inputs.laid_out(kernels, P("model"), mesh), arguments(mesh)[1]

    y = forward_on(mesh, 2, inputs.unit_block)(*given)
    found = gradient_on(mesh, 2, inputs.unit_block)(*given)

    assert all(np.isfinite(x).all() for x in jax.tree.leaves((y, found)))


@pytest.mark.parametrize("count", [1, 3])
def test_what_the_devices_send_and_compute(mesh: Mesh, count: int) -> None:
    """Bytes and FLOPs are those of the formulas."""
    data, stages = mesh.shape["data"], mesh.shape["model"]
    stacked, x = arguments(mesh)
    forward = program(forward_on(mesh, count), stacked, x)
    both = program(gradient_on(mesh, count), stacked, x)
    ticks = count + stages - 1
    shard = x.nbytes // data
    # A ring sends so many times the bytes of what it adds up.
    sent = 2 * shard * (stages - 1) // stages
    sent += shard // count * ticks * (stages > 1)
    kept = sum(each.nbytes for each in stacked.values()) // stages
    own = 2 * BATCH // data * DIM * DIM * LAYERS // stages

    assert forward.flops.total == own * ticks / count
    assert both.flops.total == 3 * own * ticks / count
    assert forward.sent("model") == forward.sent() == sent
    assert both.sent("model") == 2 * sent
    assert both.sent("data") == 2 * kept * (data - 1) // data
    assert both.sent() == both.sent("model") + both.sent("data")
    for each in both.communication:
        permutes = each.kind == "collective-permute"
        assert each.times == (ticks if permutes else 1)


def test_a_checkpointed_block_keeps_less(mesh: Mesh) -> None:
    """A block under jax.checkpoint takes less memory in the gradient."""

    def wide(kernel: Any, x: Any) -> jax.Array:
        return x + jnp.sin(jnp.sin(x @ kernel) @ kernel.T)

    kernels = inputs.normal(LAYERS, DIM, 8 * DIM) / 8
    given = inputs.laid_out(kernels, P("model"), mesh), arguments(mesh)[1]

    kept, again = (
        program(gradient_on(mesh, 6, block), *given)
        for block in (wide, jax.checkpoint(wide))
    )

    assert again.memory.temporaries < kept.memory.temporaries
    assert again.sent() == kept.sent()


def test_rows_that_can_not_be_divided() -> None:
    """Rows that leave a remainder are refused, with the three numbers."""
    count = jax.device_count()
    mesh = inputs.mesh_of(count, 1)
    stacked, _ = arguments(mesh)
    x = np.zeros((9 * count, DIM), np.float32)

    words = rf"{9 * count} rows .* {count} devices .* 4 microbatches"
    with pytest.raises(ValueError, match=words):
        pipeline_forward(layer, stacked, x, mesh, 4)


def test_layers_that_can_not_be_divided() -> None:
    """Layers that leave a remainder are refused by jax."""
    count = jax.device_count()
    if count == 1:
        pytest.skip("one device divides every number")
    stacked, x = jax.device_get(arguments(inputs.mesh_of(1, count)))
    fewer = jax.tree.map(lambda leaf: leaf[1:], stacked)

    with pytest.raises(ValueError, match="evenly divi"):
        pipeline_forward(layer, fewer, x, inputs.mesh_of(1, count), 2)


def in_loop(step: Any, *arguments: Any) -> dict[tuple[str, ...], int]:
    """Give how often each set of axes is added up over, at most."""
    times: dict[tuple[str, ...], int] = {}
    for each in program(step, *arguments).communication:
        if each.kind == "all-reduce":
            times[each.axes] = max(each.times, times.get(each.axes, 0))
    return times


def test_the_gradient_of_what_a_block_closes_over(mesh: Mesh) -> None:
    """It is added up in every layer of every tick."""
    stacked, x = arguments(mesh)
    stages = mesh.shape["model"]

    def loss(scale: Any) -> jax.Array:
        def block(params: Any, x: Any) -> jax.Array:
            return scale * layer(params, x)

        return (forward_on(mesh, 3, block)(stacked, x) ** 2).sum()

    ticks = 3 + stages - 1
    times = in_loop(jax.jit(jax.grad(loss)), jnp.ones(()))
    assert max(times.values()) == ticks * LAYERS // stages


def test_stages_under_vmap(mesh: Mesh) -> None:
    """They send as much forward, and add up gradients in each tick."""
    data, stages = mesh.shape.values()
    if 1 in (data, stages):
        pytest.skip("a dimension of one device adds nothing up")
    stacked, x = arguments(mesh)
    count = 3
    ticks = count + stages - 1

    def place(array: Any, *spec: Any) -> jax.Array:
        sharding = NamedSharding(mesh, P(*spec))
        return jax.lax.with_sharding_constraint(array, sharding)

    def stage_of(params: Any, y: Any) -> jax.Array:
        return jax.lax.scan(lambda y, p: (layer(p, y), None), y, params)[0]

    @jax.jit
    def rolled(stacked: Any, x: Any) -> jax.Array:
        params = jax.tree.map(
            lambda w: w.reshape(stages, -1, *w.shape[1:]), stacked
        )
        parts = place(x.reshape(data, count, -1, DIM), "data")
        parts = parts.swapaxes(0, 1)
        numbers = jnp.arange(stages)[:, None, None, None]
        on_all = jax.vmap(jax.vmap(stage_of, in_axes=(None, 0)))

        def tick(arrived: Any, t: Any) -> tuple[Any, Any]:
            own = parts[jnp.minimum(t, count - 1)]
            y = on_all(params, jnp.where(numbers == 0, own, arrived))
            y = place(y, "model", "data")
            return place(jnp.roll(y, 1, axis=0), "model", "data"), y

        start = jnp.broadcast_to(parts[0], (stages, *parts[0].shape))
        start = place(start, "model", "data")
        _, made = jax.lax.scan(tick, start, jnp.arange(ticks))
        made = made[stages - 1 :]
        done = jnp.where(numbers == stages - 1, made, 0).sum(axis=1)
        return place(done.swapaxes(0, 1).reshape(x.shape), "data")

    def loss(stacked: Any, x: Any) -> jax.Array:
        return (rolled(stacked, x) ** 2).sum() / 2

    expected, _ = numpy_layers(stacked, x)
    np.testing.assert_allclose(rolled(stacked, x), expected, atol=1e-5)
    ours = program(forward_on(mesh, count), stacked, x)
    assert program(rolled, stacked, x).sent() == ours.sent()
    times = in_loop(jax.jit(jax.grad(loss, (0, 1))), stacked, x)
    assert times["data",] >= ticks
    assert times["model",] >= ticks
