"""Training a sharded model with AdamW, on meshes of all devices."""

import math
import re
from functools import cache
from typing import Any

import jax
import numpy as np
import optax  # type: ignore[import-untyped]
import pytest
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.fsdp_adamw import fsdp_adamw
from shardscope import program

SIZES = 64, 64, 8, 1
MODEL = inputs.too_large(inputs.language_model, *SIZES)
SMALL = inputs.too_large(inputs.residual_mlp, 16)
SMALL_RULES = (
    (r"up\.kernel", P("data", "model")),
    (r"up\..*", P(("data", "model"))),
    (r"down\.kernel", P(None, "data")),
    (r".*", P()),
)


def trained(mesh: Mesh) -> tuple[Any, Any, Any]:
    """Give a language model, its optimizer and a step."""
    return fsdp_adamw(
        MODEL,
        inputs.next_token_loss,
        inputs.clipped_adamw(),
        mesh,
        inputs.LM_RULES,
    )


def batches(mesh: Mesh) -> list[Any]:
    """Give four batches of tokens."""
    return [inputs.tokens(32, 16, 64, mesh, seed=i) for i in range(4)]


@cache
def whole_losses() -> list[float]:
    """Train the same model unsharded, with Optax alone."""
    model = inputs.language_model(*SIZES, lambda x: x)
    graphdef, params = nnx.split(model)
    tx = inputs.clipped_adamw()
    state = tx.init(params)

    @jax.jit
    def step(params: Any, state: Any, batch: Any) -> Any:
        def loss(params: Any) -> Any:
            model = nnx.merge(graphdef, params)
            return inputs.next_token_loss(model, batch)

        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = tx.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, value

    losses = []
    for batch in batches(inputs.mesh_of(1, 1)):
        params, state, value = step(params, state, batch)
        losses.append(float(value))
    return losses


def specs(rules: Any, model: nnx.Module) -> dict[str, P]:
    """Give the spec of each array of a model, by its path."""
    paths = [
        ".".join(map(str, path))
        for path, _ in nnx.to_flat_state(nnx.state(model))
    ]
    return {
        path: next(spec for rule, spec in rules if re.fullmatch(rule, path))
        for path in paths
    }


def arrays(node: Any) -> dict[str, jax.Array]:
    """Give the arrays of a Module by their paths."""
    return {
        ".".join(map(str, path)): variable[...]
        for path, variable in nnx.to_flat_state(nnx.state(node))
    }


def sharded_by(rules: Any, model: Any, optimizer: Any) -> None:
    """Assert that parameters and moments are sharded by rules."""
    wanted = specs(rules, model)
    state = optimizer.opt_state[1][0]
    for each in (model, state.mu, state.nu):
        found = arrays(each)
        for path, array in found.items():
            spec = NamedSharding(model_mesh(array), wanted[path])
            assert array.sharding.is_equivalent_to(spec, array.ndim)
        # A count of calls is no parameter.
        assert wanted.keys() - found.keys() <= {"calls"}
    for path, array in arrays(optimizer).items():
        if array.ndim == 0:
            assert array.sharding.is_fully_replicated, path


def model_mesh(array: jax.Array) -> Mesh:
    """Give the mesh of an array that has one."""
    assert isinstance(array.sharding, NamedSharding)
    assert isinstance(array.sharding.mesh, Mesh)
    return array.sharding.mesh


@pytest.mark.exhaustive("it compiles for half a minute")
def test_a_language_model(mesh: Mesh) -> None:
    """Losses are those of one device, from one trace; all is donated."""
    traces = []

    def loss(model: Any, batch: Any) -> Any:
        traces.append(1)
        return inputs.next_token_loss(model, batch)

    model, optimizer, step = fsdp_adamw(
        MODEL, loss, inputs.clipped_adamw(), mesh, inputs.LM_RULES
    )
    before = jax.tree.leaves((model, optimizer))
    kernels = 4 * 64 * 64 * (1 + 3 + 1 + 4 + 4 + 1)
    scales = 4 * 3 * 64
    held = sum(map(bytes_on_a_device, before))
    assert held == 3 * (kernels // mesh.size + scales) + 3 * 4
    sharded_by(inputs.LM_RULES, model, optimizer)

    losses = [step(model, optimizer, batch) for batch in batches(mesh)]

    assert losses[0].dtype == np.float32
    assert losses[0].shape == ()
    np.testing.assert_allclose(losses, whole_losses(), rtol=1e-5)
    assert optimizer.step[...] == 4
    sharded_by(inputs.LM_RULES, model, optimizer)
    assert {model_mesh(a) for a in jax.tree.leaves(optimizer)} == {mesh}
    assert all(array.is_deleted() for array in before)
    assert len(traces) == 1


def bytes_on_a_device(array: jax.Array) -> int:
    """Count the bytes of an array on the first of its devices."""
    return array.addressable_shards[0].data.nbytes


def test_adamw_by_hand(mesh: Mesh) -> None:
    """Parameters are NumPy's, and so are the moments."""
    decay, rate, clip = 0.1, 0.01, 0.25
    tx = optax.chain(
        optax.clip_by_global_norm(clip),
        optax.adamw(rate, weight_decay=decay),
    )
    model, optimizer, step = fsdp_adamw(
        SMALL, inputs.residual_error, tx, mesh, SMALL_RULES
    )
    batch = inputs.examples(32, 16, 16, mesh)
    plain = inputs.residual_mlp(16, lambda x: x)
    graphdef, params, rest = nnx.split(plain, nnx.Param, ...)
    gradient_of = jax.grad(
        lambda params: inputs.residual_error(
            nnx.merge(graphdef, params, rest, copy=True), batch
        )
    )
    mean: Any = jax.tree.map(np.zeros_like, params)
    square: Any = mean
    for count in range(1, 4):
        step(model, optimizer, batch)

        gradient = jax.tree.map(np.asarray, gradient_of(params))
        squares = [(leaf**2).sum() for leaf in jax.tree.leaves(gradient)]
        norm = math.sqrt(sum(squares))
        assert norm > clip
        gradient = jax.tree.map(lambda g: g * clip / norm, gradient)  # noqa: B023
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
        square = jax.tree.map(
            lambda s, g: 0.999 * s + 0.001 * g**2, square, gradient
        )
        new = [
            p
            - rate
            * (
                m
                / (1 - 0.9**count)
                / (np.sqrt(s / (1 - 0.999**count)) + 1e-8)
                + decay * p
            )
            for p, m, s in zip(
                *map(jax.tree.leaves, (params, mean, square)), strict=True
            )
        ]
        params = jax.tree.unflatten(jax.tree.structure(params), new)
    found, wanted = arrays(model), nnx.to_flat_state(params)
    for path, variable in wanted:
        name = ".".join(map(str, path))
        np.testing.assert_allclose(
            found[name], variable[...], rtol=1e-4, atol=1e-5
        )
    state = optimizer.opt_state[1][0]
    for moment, expected in ((state.mu, mean), (state.nu, square)):
        for one, other in zip(
            *map(jax.tree.leaves, (moment, expected)), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-7)
    sharded_by(SMALL_RULES, model, optimizer)
    # What the model writes to a Variable that is no parameter.
    assert found["calls"] == 3


def test_what_a_step_needs(mesh: Mesh) -> None:
    """The parameters are gathered over "data", and activations are not."""
    model, optimizer, step = trained(mesh)
    batch = batches(mesh)[0]

    report = program(step, model, optimizer, batch)

    state = sum(map(bytes_on_a_device, jax.tree.leaves((model, optimizer))))
    tokens = 4 * 32 * 17 // mesh.shape["data"]
    assert report.memory.arguments == state + tokens
    assert report.memory.donated == state
    assert report.transfers == {}
    data, shards = mesh.shape["data"], mesh.shape["model"]
    # An all-gather of the kernels in a row, and an all-reduce of gradients.
    kernels = 4 * 64 * 64 * 14 // shards
    assert report.sent("data") < 3.5 * kernels * (data - 1) / data + 1
    if data == 8:
        free, other, _ = fsdp_adamw(
            lambda constrain: MODEL(lambda x: x),
            inputs.next_token_loss,
            inputs.clipped_adamw(),
            mesh,
            inputs.LM_RULES,
        )
        unconstrained = program(step, free, other, batch)
        assert unconstrained.sent("data") > 6 * report.sent("data")


def test_a_missing_rule() -> None:
    """An array that no rule matches is refused."""
    with pytest.raises(ValueError, match="no rule matches calls"):
        fsdp_adamw(
            SMALL,
            inputs.residual_error,
            inputs.clipped_adamw(),
            inputs.mesh_of(1, 1),
            SMALL_RULES[:-1],
        )
