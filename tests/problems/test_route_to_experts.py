"""Top-1 experts and their gradients, on meshes of all devices."""

import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.route_to_experts import route_to_experts
from shardscope import program

TOKENS, DIM, EXPERTS, HIDDEN = 128, 16, 16, 12


def arguments(mesh: Mesh, tokens: int = TOKENS) -> tuple[Any, Any]:
    """Give placed params and x, of which four tokens are padding."""
    return (
        inputs.expert_params(DIM, EXPERTS, HIDDEN, mesh),
        inputs.padded_tokens(tokens, DIM, 4, mesh),
    )


def gradient_on(mesh: Mesh, capacity: int) -> Any:
    """Give the gradients of half the sum of squares, compiled."""

    def loss(params: Any, x: Any) -> jax.Array:
        y, _ = route_to_experts(params, x, mesh, capacity)
        return (y**2).sum() / 2

    return jax.jit(jax.grad(loss, argnums=(0, 1)))


def operands(kind: str, lowered: Any) -> list[str]:
    """Give the first operand of each operation of a kind, as 16x2xf32."""
    pattern = rf"stablehlo\.{kind}.*?}}\) : \(tensor<([^>]*)>"
    return re.findall(pattern, lowered.as_text(), re.DOTALL)


def gelu(x: Any) -> tuple[Any, Any]:
    """Give the tanh approximation of GELU, and its derivative."""
    scale = np.sqrt(2 / np.pi)
    bent = np.tanh(scale * (x + 0.044715 * x**3))
    slope = scale * (1 + 3 * 0.044715 * x**2) * (1 - bent**2)
    return x * (1 + bent) / 2, (1 + bent + x * slope) / 2


def numpy_experts(
    params: Any, x: Any, devices: int, capacity: int
) -> tuple[Any, int, Any, Any]:
    """Route token by token: y, how many are dropped, and gradients.

    The gradients are those of half the sum of squares of y.
    """
    router, up, down, x = (
        np.asarray(each, "d")
        for each in (params["router"], params["up"], params["down"], x)
    )
    y, of_x = np.zeros_like(x), np.zeros_like(x)
    of = {"router": 0 * router, "up": 0 * up, "down": 0 * down}
    dropped = 0
    for rows in np.split(np.arange(len(x)), devices):
        taken = [0] * len(up)
        for t in rows:
            scores = np.exp(x[t] @ router)
            weights = scores / scores.sum()
            e = int(weights.argmax())
            taken[e] += 1
            if taken[e] > capacity:
                dropped += 1
                continue
            hidden, bend = gelu(x[t] @ up[e])
            made = hidden @ down[e]
            y[t] = weights[e] * made

            of_made = weights[e] * y[t]
            of_hidden = of_made @ down[e].T * bend
            of["down"][e] += np.outer(hidden, of_made)
            of["up"][e] += np.outer(x[t], of_hidden)
            others = (np.arange(len(up)) == e) - weights
            of_scores = (y[t] @ made) * weights[e] * others
            of["router"] += np.outer(x[t], of_scores)
            of_x[t] = of_hidden @ up[e].T + router @ of_scores
    return y, dropped, of, of_x


@pytest.mark.parametrize("capacity", [2, TOKENS])
def test_values_and_shardings(mesh: Mesh, capacity: int) -> None:
    """Output and gradients are NumPy's, sharded like the arguments."""
    params, x = arguments(mesh)
    y, dropped, of_params, of_x = numpy_experts(
        params, x, mesh.size, capacity
    )

    run = jax.jit(route_to_experts, static_argnums=(2, 3))
    found, count = run(params, x, mesh, capacity)
    slopes = gradient_on(mesh, capacity)(params, x)

    assert (count.dtype, count.shape) == (np.int32, ())
    assert count.sharding.is_fully_replicated
    assert int(count) == dropped
    assert (dropped == 0) == (capacity == TOKENS)
    assert found.dtype == np.float32
    assert found.sharding.is_equivalent_to(x.sharding, 2)
    np.testing.assert_allclose(found, y, atol=1e-5)
    for got, want, like in zip(
        jax.tree.leaves(slopes),
        jax.tree.leaves((of_params, of_x)),
        jax.tree.leaves((params, x)),
        strict=True,
    ):
        limit = 1e-5 * np.abs(want).max()
        np.testing.assert_allclose(got, want, atol=limit)
        assert got.sharding.is_equivalent_to(like.sharding, like.ndim)


def test_each_device_keeps_its_first_tokens(mesh: Mesh) -> None:
    """With equal tokens, the first of each device have an output."""
    params, _ = arguments(mesh)
    equal = jnp.ones((TOKENS, DIM)) / 4
    x = inputs.laid_out(equal, P(("data", "model")), mesh)

    y, dropped = jax.jit(partial(route_to_experts, mesh=mesh, capacity=2))(
        params, x
    )

    kept = np.abs(np.asarray(y)).max(axis=1).reshape(mesh.size, -1) > 0
    assert kept[:, :2].all()
    assert not kept[:, 2:].any()
    assert dropped == TOKENS - 2 * mesh.size


def test_bfloat16(mesh: Mesh) -> None:
    """bfloat16 arrays give an output and gradients, and sums of these."""
    given = arguments(mesh)
    narrow = jax.tree.map(lambda each: each.astype(jnp.bfloat16), given)
    y, _, _, _ = numpy_experts(*narrow, mesh.size, TOKENS)

    run = jax.jit(route_to_experts, static_argnums=(2, 3))
    found, _ = run(*narrow, mesh, TOKENS)
    gradient = gradient_on(mesh, TOKENS)
    slopes = gradient(*narrow)
    sums = operands("all_reduce", gradient.lower(*narrow))

    assert found.dtype == jnp.bfloat16
    assert [each.split("x")[-1] for each in sums] == ["bf16"] * 3
    assert all(x.dtype == jnp.bfloat16 for x in jax.tree.leaves(slopes))
    limit = 0.02 * np.abs(y).max()
    np.testing.assert_allclose(np.float32(found), y, atol=limit)


def test_the_gradient_looks_up_no_writer(mesh: Mesh) -> None:
    """It writes the slots' gradient and the tokens', and marks nothing."""
    lowered = gradient_on(mesh, 2).lower(*arguments(mesh))
    written = operands("scatter", lowered)

    slots = f"{EXPERTS}x2x{DIM}x"
    found = [each for each in written if each.startswith(slots)]
    assert found == [f"{slots}f32"] * 2


def test_what_the_devices_send_and_compute(mesh: Mesh) -> None:
    """Bytes and FLOPs are those of the formulas, whatever is routed."""
    params, x = arguments(mesh)
    data, model = mesh.shape["data"], mesh.shape["model"]
    over_all = 2 * (mesh.size - 1) / mesh.size
    for capacity in (2, 5):
        run = partial(route_to_experts, mesh=mesh, capacity=capacity)
        forward = program(run, params, x)
        both = program(gradient_on(mesh, capacity), params, x)
        slots = EXPERTS * capacity * DIM * 4
        two = 2 * (model - 1) * slots // model
        kernels = (params["up"].nbytes + params["down"].nbytes) // model
        router = int(over_all * DIM * EXPERTS * 4)

        assert forward.sent() == two + int(4 * over_all)
        expected = {"all-reduce"} if mesh.size > 1 else set()
        expected |= {"all-to-all"} if model > 1 else set()
        assert set(forward.collectives) == expected
        of_kernels = 2 * (data - 1) * kernels // data
        assert both.sent() == 2 * two + of_kernels + router
        experts = 4 * EXPERTS * capacity * DIM * HIDDEN
        scores = 2 * TOKENS // mesh.size * DIM * EXPERTS
        assert forward.flops.total == experts + scores


def test_sizes_that_do_not_divide() -> None:
    """Experts or tokens that leave a remainder are refused."""
    count = jax.device_count()
    if count == 1:
        pytest.skip("one device divides every size")
    one, line = inputs.mesh_of(1, 1), inputs.mesh_of(1, count)
    params = inputs.expert_params(DIM, count + 1, HIDDEN, one)
    wide = inputs.expert_params(DIM, count, HIDDEN, one)
    odd, even = (
        np.zeros((rows, DIM), np.float32) for rows in (count + 1, count)
    )

    for kernels, x in ((params, even), (wide, odd)):
        with pytest.raises(ValueError, match="evenly divi"):
            route_to_experts(jax.device_get(kernels), x, line, 2)


def test_shardings_of_the_output_in_a_step(mesh: Mesh) -> None:
    """A residual connection keeps the tokens where they are."""
    params, x = arguments(mesh)

    @jax.jit
    def step(params: Any, x: Any) -> Any:
        return x + route_to_experts(params, x, mesh, 2)[0]

    tokens = NamedSharding(mesh, P(("data", "model")))
    assert step(params, x).sharding.is_equivalent_to(tokens, 2)


def test_tokens_of_sequences(mesh: Mesh) -> None:
    """Flattened inside shard_map, tokens stay; a reshape moves them."""
    data, model = mesh.shape.values()
    params, x = arguments(mesh)
    sequences, rows = P("data", "model"), P(("data", "model"))
    # Two sequences for each index of "data".
    shape = (2 * data, TOKENS // (2 * data), DIM)
    tokens = inputs.laid_out(np.asarray(x).reshape(shape), sequences, mesh)
    layer = partial(route_to_experts, mesh=mesh, capacity=2)
    on_mesh = partial(jax.shard_map, mesh=mesh)

    def inside(params: Any, x: Any) -> Any:
        flat = on_mesh(
            lambda own: own.reshape(-1, DIM),
            in_specs=sequences,
            out_specs=rows,
        )
        unflat = on_mesh(
            lambda own: own.reshape(2, -1, DIM),
            in_specs=rows,
            out_specs=sequences,
        )
        return x + unflat(layer(params, flat(x))[0])

    def by_reshape(params: Any, x: Any) -> Any:
        y, _ = layer(params, x.reshape(-1, DIM))
        return x + y.reshape(x.shape)

    def all_to_alls(block: Any) -> int:
        placed = NamedSharding(mesh, sequences)
        jitted = jax.jit(block, out_shardings=placed)
        found = program(jitted, params, tokens).collectives
        return found.get("all-to-all", 0)

    moves = model > 1
    assert all_to_alls(inside) == 2 * moves
    assert all_to_alls(by_reshape) == 4 * moves
