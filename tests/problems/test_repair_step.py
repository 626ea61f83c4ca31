"""The repaired step, and that what is handed out trains as well."""

import importlib.util
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.inputs import counting
from shardbook.problems import repair_step as solution
from shardgrade.reader import attempt_files
from shardscope import layout, program


def train(module: Any, mesh: Mesh) -> list[float]:
    """Train a few steps, and return the losses."""
    model, optimizer, place, step = module.repair_step(mesh)
    return [
        float(step(model, optimizer, place(counting(32, 17, 1024, seed))))
        for seed in range(4)
    ]


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Import what is handed out."""
    path: Path = tmp_path_factory.mktemp("starter") / "handed_out.py"
    path.write_text(attempt_files.starter("repair_step"), "utf-8")
    spec = importlib.util.spec_from_file_location("handed_out", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def alone() -> list[float]:
    """Train on one device, without microbatches or a mesh."""
    import optax

    model = solution.Transformer(inputs.mesh_of(1, 1), nnx.Rngs(0))
    rates = optax.warmup_cosine_decay_schedule(0.0, 0.01, 2, 100)
    clip = optax.clip_by_global_norm(1.0)
    tx = optax.chain(clip, optax.adamw(rates))
    optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)
    losses = []
    for seed in range(4):
        tokens = counting(32, 17, 1024, seed)
        loss, gradients = nnx.value_and_grad(solution.loss_of)(
            model, tokens
        )
        optimizer.update(model, gradients)
        losses.append(float(loss))
    return losses


@pytest.mark.exhaustive("it compiles for half a minute")
def test_losses_are_those_of_one_device(
    mesh: Mesh, alone: list[float]
) -> None:
    """The losses fall, as on one device without microbatches."""
    losses = train(solution, mesh)

    np.testing.assert_allclose(losses, alone, rtol=1e-4)
    assert losses[-1] < losses[0] - 0.1


@pytest.mark.exhaustive("it compiles for half a minute")
def test_what_is_handed_out_trains_the_same(
    mesh: Mesh, starter: Any, alone: list[float]
) -> None:
    """Its faults are silent."""
    np.testing.assert_allclose(train(starter, mesh), alone, rtol=1e-4)


def test_each_fault_costs(starter: Any) -> None:
    """On a mesh of two axes, what was broken is worse in each respect."""
    if jax.device_count() < 8:
        pytest.skip("the figures are those of eight devices")
    mesh = inputs.mesh_of(2, 4)
    reports = []
    for module in (starter, solution):
        model, optimizer, place, step = module.repair_step(mesh)
        tokens = place(counting(32, 17, 1024, 0))
        reports.append(program(step, model, optimizer, tokens))
        moments = layout(optimizer)
        whole = sum(leaf.bytes_per_device for leaf in moments)
        reports.append(whole)
    before, moments_before, after, moments_after = reports

    assert before.sent("data") > 3 * after.sent("data")
    assert before.sent("model") > after.sent("model")
    assert before.memory.total > 2 * after.memory.total
    assert moments_before > 3 * moments_after
    assert before.memory.donated == 0 < after.memory.donated


def test_padding_of_the_vocabulary() -> None:
    """Logits of -inf leave the loss as it is, and not NaN."""
    logits = inputs.normal(2, 16, 1024)
    tokens = inputs.counting(2, 17, 1024, 0)
    padding = ((0, 0), (0, 0), (0, 24))
    padded = jnp.pad(logits, padding, constant_values=-jnp.inf)

    found = solution.loss_of(lambda _: padded, tokens)

    expected = solution.loss_of(lambda _: logits, tokens)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_shardings_are_fixed(mesh: Mesh) -> None:
    """Arrays are made as shards, and a step takes and returns no others."""
    with jax.transfer_guard_device_to_device("disallow_explicit"):
        model, optimizer, place, step = solution.repair_step(mesh)
    before = layout(model), layout(optimizer)
    batch = place(counting(32, 17, 1024, 0))
    step(model, optimizer, batch)

    layout(model).match(before[0])
    layout(optimizer).match(before[1])
    if jax.device_count() > 1:
        other = NamedSharding(mesh, P(None, mesh.axis_names))
        moved = jax.device_put(model.embed[...], other)
        nnx.update(model, {"embed": moved})  # An assignment keeps the old.
        with pytest.raises(ValueError, match="does not match the sharding"):
            step(model, optimizer, batch)
