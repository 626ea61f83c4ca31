"""Runs that are killed and go on, on meshes of all devices."""

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.resume_run import resume_run

WEIGHT = np.linspace(1, 2, 16, dtype=np.float32).reshape(8, 2)


class Stopped(Exception):  # noqa: N818
    """Ends a run between two steps."""


def momentum_run(mesh: Mesh, at: int | None = None) -> tuple[Any, ...]:
    """Give the parts of a run of SGD with momentum and random noise."""
    rows, whole = (NamedSharding(mesh, spec) for spec in (P("data"), P()))
    shardings = {"w": rows, "m": rows, "key": whole}

    def first() -> dict[str, Any]:
        return {"w": WEIGHT, "m": 0 * WEIGHT, "key": jax.random.key(3)}

    abstract = jax.tree.map(
        lambda x, to: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=to),
        jax.eval_shape(lambda: jax.tree.map(jax.numpy.asarray, first())),
        shardings,
    )

    def next_state(state: Any, x: Any) -> Any:
        key, used = jax.random.split(state["key"])
        slope = x * state["w"] + jax.random.normal(used, (8, 2))
        m = 0.5 * state["m"] + slope
        return {"w": state["w"] - 0.1 * m, "m": m, "key": key}

    def batch(number: int) -> Any:
        if number == at:
            raise Stopped
        return jax.device_put(np.float32(number), whole)

    make = jax.jit(first, out_shardings=shardings)
    step = jax.jit(next_state, donate_argnums=0, out_shardings=shardings)
    return abstract, make, step, batch


def numpy_run(steps: int) -> tuple[Any, Any]:
    """Compute the weight and the momentum in NumPy."""
    w, m, key = WEIGHT, 0 * WEIGHT, jax.random.key(3)
    for number in range(steps):
        key, used = jax.random.split(key)
        noise = np.asarray(jax.random.normal(used, (8, 2)))
        m = 0.5 * m + number * w + noise
        w = w - 0.1 * m
    return w, m


def other(mesh: Mesh) -> Mesh:
    """Give a mesh with the two sizes in turn."""
    return inputs.mesh_of(*mesh.devices.shape[::-1])


def test_a_stopped_run_ends_like_one_that_was_not(
    mesh: Mesh, tmp_path: Path
) -> None:
    """The values are those of NumPy, in the shardings of the last mesh."""
    with pytest.raises(Stopped):
        resume_run(str(tmp_path / "a"), *momentum_run(mesh, at=6), 9, 4)
    parts = momentum_run(other(mesh))

    state = resume_run(str(tmp_path / "a"), *parts, 9, 4)

    expected = numpy_run(9)
    for name, wanted in zip(("w", "m"), expected, strict=True):
        np.testing.assert_allclose(
            state[name], wanted, rtol=1e-4, atol=1e-4
        )
    assert jax.tree.map(lambda x: x.sharding, state) == jax.tree.map(
        lambda x: x.sharding, parts[0]
    )


def test_a_checkpoint_of_step_0_is_a_checkpoint(tmp_path: Path) -> None:
    """What somebody puts there to begin with is not taken for nothing."""
    abstract, make, step, batch = momentum_run(inputs.mesh_of(1, 1))
    with ocp.CheckpointManager(tmp_path) as manager:
        begun = {**make(), "w": make()["w"] + 100}
        manager.save(0, args=ocp.args.StandardSave(begun))

    state = resume_run(str(tmp_path), abstract, make, step, batch, 1, 1)

    assert np.asarray(state["w"]).min() > 90


def test_the_folder_has_the_two_newest(tmp_path: Path) -> None:
    """There is a checkpoint of each interval and one of the last step."""
    mesh = inputs.mesh_of(1, 1)

    resume_run(str(tmp_path), *momentum_run(mesh), 10, 4)

    assert sorted(os.listdir(tmp_path)) == ["10", "8"]
    resume_run(str(tmp_path), *momentum_run(mesh), 12, 4)
    assert sorted(os.listdir(tmp_path)) == ["10", "12"]


def test_a_finished_run_trains_nothing(tmp_path: Path) -> None:
    """A run that is started again calls neither make nor batch."""
    abstract, make, step, batch = momentum_run(inputs.mesh_of(1, 1))
    before = resume_run(str(tmp_path), abstract, make, step, batch, 3, 2)

    def never(*_: Any) -> Any:
        raise AssertionError

    after = resume_run(str(tmp_path), abstract, never, never, never, 3, 2)

    np.testing.assert_array_equal(before["w"], after["w"])
    np.testing.assert_array_equal(before["m"], after["m"])


def test_an_unfinished_checkpoint_is_not_restored(tmp_path: Path) -> None:
    """What a kill while saving leaves behind is removed."""
    parts = momentum_run(inputs.mesh_of(1, 1))
    resume_run(str(tmp_path), *parts, 3, 2)
    left = tmp_path / "15.orbax-checkpoint-tmp"
    left.mkdir()
    (left / "half").write_text("of an array")

    state = resume_run(str(tmp_path), *parts, 5, 2)

    np.testing.assert_allclose(state["w"], numpy_run(5)[0], rtol=1e-4)
    assert sorted(os.listdir(tmp_path)) == ["4", "5"]


def test_a_kill_while_saving(mesh: Mesh) -> None:
    """The next run goes on from the newest complete checkpoint."""
    meshes = [mesh, other(mesh)]

    (found,) = inputs.runs_of(
        resume_run, meshes, [9, 9], killed_at=6, slow=True
    )

    (whole,) = inputs.runs_of(resume_run, [mesh], [9])
    assert (found["batches"], found["make"]) == ([3, 4, 5, 6, 7, 8], 0)
    assert found["folder"] == ["6", "9"]
    for mine, wanted in zip(
        jax.tree.leaves(found["state"]["opt"]),
        jax.tree.leaves(whole["state"]["opt"]),
        strict=True,
    ):
        np.testing.assert_allclose(mine, wanted, rtol=1e-4, atol=1e-6)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    """The error leaves the checkpoints where they are."""
    abstract, *functions = momentum_run(inputs.mesh_of(1, 1))
    resume_run(str(tmp_path), abstract, *functions, 3, 2)
    renamed = {"weight" if k == "w" else k: v for k, v in abstract.items()}

    with pytest.raises(ValueError, match="structures do not match"):
        resume_run(str(tmp_path), renamed, *functions, 5, 2)

    with ocp.CheckpointManager(tmp_path) as manager:
        assert sorted(manager.all_steps()) == [2, 3]
