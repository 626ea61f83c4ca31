"""Inputs of calls of ``resume_run``."""

import logging
import os
import shutil
import threading
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
# So many at most where a kill comes before: the rename waits for the kill,
# but the run may itself wait for the rename.
SLOWER = 0.5
# How many seconds nothing changes once all is written.
QUIET = 0.4


class Killed(BaseException):
    """Ends a run where a kill would end its process."""


@cache
def training(
    mesh: Mesh, *, biases: str = "b"
) -> tuple[Any, Callable[[], Any], Callable[..., Any], Callable[..., Any]]:
    """Return what a run needs: ``abstract``, ``make``, ``step``, ``batch``.

    The model is a layer with dropout, the optimizer Adam. Its state is a
    dict: ``"params"``, with a kernel ``w``, ``(16, 8)``, sharded over
    ``"data"`` and ``"model"``, and a bias ``b``; ``"opt"``, optax's state;
    and ``"key"``, a random key that each step splits.

    Args:
        mesh: Mesh with axes ``"data"``, whose size divides 16, and
            ``"model"``, whose size divides 8.
        biases: The names of the layer's biases, a letter each.

    Returns:
        The state as abstract arrays with shardings; a function that makes
        it; a jitted step, which donates it; and a function that gives the
        batch of a step, ``(16, 16)``, sharded as ``P("data")``.
    """
    adam = optax.adam(0.01)

    def first() -> dict[str, Any]:
        kernel = np.random.default_rng(0).normal(size=(16, 8))
        params = {"w": jnp.asarray(kernel, jnp.float32)}
        params |= {name: jnp.zeros(8) for name in biases}
        key = jax.random.key(7)
        return {"params": params, "opt": adam.init(params), "key": key}

    def place(path: Any, leaf: Any) -> Any:
        name = jax.tree_util.keystr(path[-1:], simple=True)
        specs = {"w": P("data", "model")}
        specs |= dict.fromkeys(biases, P("model"))
        spec = NamedSharding(mesh, specs.get(name, P()))
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=spec)

    abstract = jax.tree.map_with_path(place, jax.eval_shape(first))
    shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)

    @partial(jax.jit, donate_argnums=0, out_shardings=shardings)
    def step(state: dict[str, Any], x: jax.Array) -> dict[str, Any]:
        key, used = jax.random.split(state["key"])
        x = x * jax.random.bernoulli(used, 0.9, x.shape)

        def loss(params: Any) -> jax.Array:
            y = x @ params["w"] + sum(params[name] for name in biases)
            y = jnp.tanh(y)
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
    biases: str = "b",
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
        killed_at: Kill the first run that asks for this batch, as it asks,
            once it has written nothing for 0.4 s.
        writing: Kill it before, if it makes a folder among its checkpoints
            in the step before that batch.
        removing: Kill it before, as it removes the first of its checkpoints
            after the step ``every``, which must be a number then.
        slow: Whether a checkpoint takes 0.2 s to be complete once it is
            written, or 1 s before a kill, for which the kill does not wait.
        biases: The names of the biases in all runs but the first.
        refused: Whether to note an error that the last run raises, before
            it makes a state.

    Returns:
        For each run that was not killed, its number as ``"run"``, from 1;
        its ``"state"``, or its ``"error"``; the ``"batches"`` that it asked
        for; how many ``"steps"`` it trained; how often it called
        ``"make"``; the state that its first step was given, as abstract
        arrays, as ``"first"``; and the names in its ``"folder"`` as it
        returned: of these, the ``"folders"``; those that it found and has
        ``"written anew"``; what it has begun and is ``"unfinished"``; and
        what it found unfinished, and is ``"left over"``.
    """
    path = os.path.join(temporary_folder(), "run")
    steps = [every] * len(stops) if isinstance(every, int) else every
    found: list[dict[str, Any]] = []
    # Orbax warns of each folder that a kill leaves behind.
    with _no_warnings():
        each = zip(meshes, stops, steps, strict=True)
        for number, (mesh, *last) in enumerate(each, 1):
            before = _contents(path)
            model = training(mesh, biases=biases if found else "b")
            one = _Run(path, killed_at, number)
            renames = one.slow_renames() if slow else nullcontext()
            folders: AbstractContextManager[Any] = nullcontext()
            if killed_at is not None and writing:
                folders = one.killing_in("mkdir", killed_at - 1)
            elif killed_at is not None and removing:
                folders = one.killing_in("rmdir", last[1])
            watched = one.watched(*model[1:], wait=not slow, begun=writing)
            with suppress(Killed), folders, renames:
                try:
                    state = run(path, model[0], *watched, *last)
                    one.noted["state"] = state
                except Exception as error:
                    made = one.noted["make"]
                    if not refused or number < len(stops) or made:
                        raise
                    words = f"{type(error).__name__}: {error}"
                    one.noted["error"] = words
            if one.left:
                path, killed_at = one.left, None
            else:
                found.append(one.noted | _changes(path, before))
    return found


class _Run:
    """A run, which may be killed.

    Args:
        path: Its folder.
        killed_at: Kill it as it asks for this batch, if it does.
        number: Its number, from 1.

    Attributes:
        noted: What it has done, as :func:`runs_of` returns it.
        left: The copy of its folder as it was killed, or ``""``.
        killed: Whether it was.
    """

    def __init__(
        self, path: str, killed_at: int | None, number: int
    ) -> None:
        self.path, self.killed_at = path, killed_at
        self.noted: dict[str, Any] = {
            "run": number,
            "batches": [],
            "steps": 0,
            "make": 0,
            "first": None,
        }
        self.left = ""
        self.killed = threading.Event()

    def watched(
        self, make: Any, step: Any, batch: Any, *, wait: bool, begun: bool
    ) -> tuple[Any, Any, Any]:
        """Note what a run calls, and kill it where it asks for a batch.

        Args:
            make: Makes the first state.
            step: Trains a step.
            batch: Gives a batch.
            wait: Whether to kill it once it has written nothing for long.
            begun: Whether a thread may be about to make its folder, which
                kills the run as well.
        """
        noted = self.noted

        def watched_make() -> Any:
            noted["make"] += 1
            return make()

        def watched_step(state: Any, data: Any) -> Any:
            if noted["first"] is None:
                noted["first"] = jax.tree.map(_abstract, state)
            noted["steps"] += 1
            return step(state, data)

        def watched_batch(number: int) -> Any:
            at = self.killed_at
            if at is None or (number < at and not self.left):
                noted["batches"].append(int(number))
                return batch(number)
            if begun and not self.left:
                self.killed.wait(QUIET)
            self.kill(wait=wait)
            raise Killed

        return watched_make, watched_step, watched_batch

    def kill(self, *, wait: bool) -> None:
        """Keep what is in its folder, unless that is done."""
        if not self.left:
            copy = _as_it_is(self.path, wait=wait)
            # A thread may have been killed meanwhile.
            self.left = self.left or copy
            self.killed.set()

    def killing_in(
        self, call: str, after: int
    ) -> AbstractContextManager[Any]:
        """Kill it where it makes a folder, once it has a batch.

        With ``"rmdir"``, where it removes one that isn't temporary.
        """
        original = getattr(os, call)

        def watched(name: Any, *args: Any, **more: Any) -> None:
            original(name, *args, **more)
            start = self.path + os.sep
            within, _, inside = os.fsdecode(name).partition(start)
            kept = call == "rmdir" and ("tmp" in inside or os.sep in inside)
            if within or not inside or kept:
                return
            if after in self.noted["batches"]:
                self.kill(wait=False)

        return patch.object(os, call, watched)

    def slow_renames(self) -> AbstractContextManager[Any]:
        """Make it take longer to rename a file, as on a slow disk.

        In a run that is killed, from the last step before on.
        """
        rename, at = os.rename, self.killed_at

        def slow(*args: Any, **more: Any) -> None:
            if at is None:
                time.sleep(SLOW)
            elif at - 1 in self.noted["batches"]:
                self.killed.wait(SLOWER)
            rename(*args, **more)

        return patch.object(os, "rename", slow)


def _abstract(leaf: Any) -> Any:
    """Keep what an array is, for the array is donated."""
    if not isinstance(leaf, jax.Array):
        return leaf
    return jax.ShapeDtypeStruct(
        leaf.shape, leaf.dtype, sharding=leaf.sharding
    )


def _as_it_is(path: str, *, wait: bool) -> str:
    """Copy the folder of a run that goes on writing."""
    copy = os.path.join(temporary_folder(), "run")
    os.makedirs(path, exist_ok=True)
    # A thread of the run may wait for ever.
    until = time.monotonic() + 5
    before = None
    while wait and time.monotonic() < until:
        # What is not complete may be beside the folder.
        now = _contents(os.path.dirname(path))
        if now == before and not any("tmp" in n for n in os.listdir(path)):
            break
        before = now
        time.sleep(QUIET)
    while True:
        # What is renamed or removed meanwhile can't be copied.
        with suppress(shutil.Error, FileNotFoundError):
            shutil.copytree(path, copy, symlinks=True, dirs_exist_ok=True)
            return copy
        shutil.rmtree(copy, ignore_errors=True)


def _contents(folder: str) -> dict[str, dict[str, Any]]:
    """Give the files below each name in a folder, and which they are."""
    found: dict[str, dict[str, Any]] = {}
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        files = found.setdefault(name, {})
        top = os.path.join(folder, name)
        below = os.walk(top) if _is_folder(top) else [(folder, (), [name])]
        for where, _, names in below:
            for path in (os.path.join(where, each) for each in names):
                with suppress(FileNotFoundError):
                    at = os.lstat(path)
                    files[path] = (at.st_ino, at.st_size, at.st_mtime_ns)
    return found


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _changes(
    path: str, before: dict[str, dict[str, Any]]
) -> dict[str, list[str]]:
    """Name what a run has left in its folder."""
    now = _contents(path)
    names = sorted(now)
    folders = [n for n in names if _is_folder(os.path.join(path, n))]
    return {
        "folder": names,
        "folders": folders,
        "written anew": [
            name
            for name in folders
            if before.get(name)
            and not before[name].items() & now[name].items()
        ],
        "unfinished": [
            name for name in names if "tmp" in name and name not in before
        ],
        "left over": [
            name
            for name in names
            if name in before and ("tmp" in name or not now[name])
        ],
    }


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
