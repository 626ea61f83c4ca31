"""Inputs of calls of ``resume_run``."""

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    suppress,
)
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook.inputs.folders import temporary_folder

# How many seconds a slow disk takes to rename a folder; Orbax renames two
# before a checkpoint is complete.
SLOW = 0.1
# So many that a busy machine reaches the kill before.
SLOWER = 0.5


class Killed(BaseException):
    """Ends a run where a kill would end its process."""


@cache
def training(
    mesh: Mesh, *, bias: str | None = "b"
) -> tuple[Any, Callable[[], Any], Callable[..., Any], Callable[..., Any]]:
    """Return what a run needs: ``abstract``, ``make``, ``step``, ``batch``.

    The model is a layer with dropout, the optimizer Adam. Its state is a
    dict: ``"params"``, with a kernel ``w``, ``(16, 8)``, sharded over
    ``"data"`` and ``"model"``, and a bias ``b``; ``"opt"``, optax's state;
    and ``"key"``, a random key that each step splits.

    Args:
        mesh: Mesh with axes ``"data"``, whose size divides 16, and
            ``"model"``, whose size divides 8.
        bias: The name of the layer's bias, or None.

    Returns:
        The state as abstract arrays with shardings; a function that makes
        it; a jitted step, which donates it; and a function that gives the
        batch of a step, ``(16, 16)``, sharded as ``P("data")``.
    """
    adam = optax.adam(0.01)

    def first() -> dict[str, Any]:
        kernel = np.random.default_rng(0).normal(size=(16, 8))
        params = {"w": jnp.asarray(kernel, jnp.float32)}
        if bias:
            params[bias] = jnp.zeros(8)
        key = jax.random.key(7)
        return {"params": params, "opt": adam.init(params), "key": key}

    def place(path: Any, leaf: Any) -> Any:
        name = jax.tree_util.keystr(path[-1:], simple=True)
        specs = {"w": P("data", "model"), bias: P("model")}
        spec = NamedSharding(mesh, specs.get(name, P()))
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=spec)

    abstract = jax.tree.map_with_path(place, jax.eval_shape(first))
    shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)

    @partial(jax.jit, donate_argnums=0, out_shardings=shardings)
    def step(state: dict[str, Any], x: jax.Array) -> dict[str, Any]:
        key, used = jax.random.split(state["key"])
        x = x * jax.random.bernoulli(used, 0.9, x.shape)

        def loss(params: Any) -> jax.Array:
            y = jnp.tanh(x @ params["w"] + params.get(bias, 0))
            return jnp.mean((y - 1) ** 2)

        slopes = jax.grad(loss)(state["params"])
        updates, opt = adam.update(slopes, state["opt"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "opt": opt, "key": key}

    def batch(number: int) -> jax.Array:
        rows = np.random.default_rng(int(number)).normal(size=(16, 16))
        rows = rows.astype(np.float32)
        x: jax.Array = jax.device_put(rows, NamedSharding(mesh, P("data")))
        return x

    return abstract, jax.jit(first, out_shardings=shardings), step, batch


def runs_of(
    run: Callable[..., Any],
    meshes: Sequence[Mesh],
    stops: Sequence[int],
    *,
    every: int | Sequence[int] = 3,
    killed_at: int | None = None,
    writing: bool = False,
    removing: bool = False,
    slow: bool = False,
    bias: str | None = "b",
    refused: bool = False,
) -> list[dict[str, Any]]:
    """Start the same run on one mesh after the other.

    Each run trains the model of :func:`training`, and finds the folder as
    the run before has left it. A run that is killed leaves what is in its
    folder at that moment.

    Args:
        run: Called like ``resume_run``.
        meshes: The mesh of each run.
        stops: The step that each run trains to.
        every: The steps from one checkpoint to the next, in all runs or in
            each.
        killed_at: Kill the first run that asks for this batch, as it asks.
        writing: Kill it before, if it makes a folder among its checkpoints
            in the step before that batch.
        removing: Kill it before, as it removes the first of its checkpoints
            after the step ``every``, which must be a number then.
        slow: Whether a checkpoint takes 0.2 s to be complete once it is
            written, or 1 s before a kill. Otherwise the kill waits until
            each is complete.
        bias: The name of the bias in all runs but the first, or None.
        refused: Whether to note an error that the last run raises.

    Returns:
        For each run that was not killed, its number as ``"run"``, from 1;
        its ``"state"``, or its ``"error"``; the ``"batches"`` that it asked
        for; how many ``"steps"`` it trained; how often it called
        ``"make"``; the state that its first step was given, as abstract
        arrays, as ``"first"``; and the names in its ``"folder"`` as it
        returned.
    """
    path = os.path.join(temporary_folder(), "run")
    steps = [every] * len(stops) if isinstance(every, int) else every
    found: list[dict[str, Any]] = []
    # Orbax warns of each folder that a kill leaves behind.
    with _no_warnings():
        each = zip(meshes, stops, steps, strict=True)
        for number, (mesh, *last) in enumerate(each, 1):
            noted: dict[str, Any] = {
                "run": number,
                "batches": [],
                "steps": 0,
                "make": 0,
                "first": None,
            }
            model = training(mesh, bias=bias if found else "b")
            make, step, batch = _watched(model[1:], noted)
            folders: AbstractContextManager[Any] = nullcontext()
            renames = _slow_renames(noted, killed_at) if slow else folders
            if killed_at is not None:
                if writing:
                    folders = _killing_in(path, killed_at - 1, noted)
                elif removing:
                    folders = _killing_in(path, last[1], noted, "rmdir")
                batch = _killing(
                    batch, killed_at, path, noted, wait=not slow
                )
            with suppress(Killed), folders, renames:
                try:
                    noted["state"] = run(
                        path, model[0], make, step, batch, *last
                    )
                except Exception as error:
                    if not refused or number < len(stops):
                        raise
                    noted["error"] = type(error).__name__
            if "left" in noted:
                path, killed_at = noted["left"], None
                continue
            noted["folder"] = sorted(os.listdir(path))
            found.append(noted)
    return found


def _watched(
    three: Sequence[Any], noted: dict[str, Any]
) -> tuple[Any, Any, Any]:
    make, step, batch = three

    def watched_make() -> Any:
        noted["make"] += 1
        return make()

    def watched_step(state: Any, data: Any) -> Any:
        if noted["first"] is None:
            noted["first"] = jax.tree.map(_abstract, state)
        noted["steps"] += 1
        return step(state, data)

    def watched_batch(number: int) -> Any:
        noted["batches"].append(int(number))
        return batch(number)

    return watched_make, watched_step, watched_batch


def _abstract(leaf: Any) -> Any:
    """Keep what an array is, for the array is donated."""
    if not isinstance(leaf, jax.Array):
        return leaf
    return jax.ShapeDtypeStruct(
        leaf.shape, leaf.dtype, sharding=leaf.sharding
    )


def _killing(
    batch: Any, at: int, path: str, noted: dict[str, Any], *, wait: bool
) -> Any:
    """Give a batch function that ends the run where it asks for one."""

    def kill(number: int) -> Any:
        if number < at and "left" not in noted:
            return batch(number)
        if "left" not in noted:
            noted["left"] = _as_it_is(path, wait=wait)
        raise Killed

    return kill


def _killing_in(
    path: str, after: int, noted: dict[str, Any], call: str = "mkdir"
) -> AbstractContextManager[Any]:
    """End the run where it makes a folder, once it has a batch.

    With ``"rmdir"``, where it removes one that isn't temporary.
    """
    original = getattr(os, call)

    def kill(name: Any, *args: Any, **more: Any) -> None:
        original(name, *args, **more)
        within, _, inside = os.fsdecode(name).partition(path + os.sep)
        kept = call == "rmdir" and ("tmp" in inside or os.sep in inside)
        if within or not inside or kept:
            return
        if after in noted["batches"] and "left" not in noted:
            noted["left"] = _as_it_is(path, wait=False)

    return patch.object(os, call, kill)


def _as_it_is(path: str, *, wait: bool) -> str:
    """Copy the folder of a run that goes on writing."""
    copy = os.path.join(temporary_folder(), "run")
    os.makedirs(path, exist_ok=True)
    # A thread of the run may wait for ever.
    until = time.monotonic() + 5
    while wait and any("tmp" in name for name in os.listdir(path)):
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    while True:
        # What is renamed or removed meanwhile can't be copied.
        with suppress(shutil.Error, FileNotFoundError):
            shutil.copytree(path, copy, dirs_exist_ok=True)
            return copy
        shutil.rmtree(copy, ignore_errors=True)


def _slow_renames(
    noted: dict[str, Any], killed_at: int | None
) -> AbstractContextManager[Any]:
    """Make it take longer to rename a file, as on a slow disk.

    In a run that is killed, from the last step before on.
    """
    rename = os.rename

    def slow(*args: Any, **more: Any) -> None:
        if killed_at is None:
            time.sleep(SLOW)
        elif killed_at - 1 in noted["batches"]:
            time.sleep(SLOWER)
        rename(*args, **more)

    return patch.object(os, "rename", slow)


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Let Orbax log errors alone."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
