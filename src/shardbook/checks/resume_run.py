"""What a right ``resume_run`` must show."""

import re
from typing import Any

import jax

from shardbook.grading import measures, same
from shardbook.grading.attempt import Attempt
from shardbook.grading.cases import Case, Seen, observe
from shardbook.grading.measures.placement import shards_by_path
from shardbook.grading.measures.results import types_by_path

COUNT = jax.device_count()
FIRST, WIDE, HALF = (
    f"mesh_of{sizes}"
    for sizes in ((COUNT // 2, 2), (1, COUNT), (COUNT // 2, 1))
)


def runs(*meshes: str, stops: str, **more: str) -> str:
    """Start a run on these meshes, one after the other."""
    options = "".join(f", {name}={value}" for name, value in more.items())
    return f"runs_of(resume_run, [{', '.join(meshes)}], [{stops}]{options})"


GIVEN = {
    runs(FIRST, HALF, stops="9, 9", killed_at="8"): (
        "where the first run is killed between two saves"
    ),
    runs(FIRST, WIDE, HALF, stops="4, 7, 7"): "where no run is killed",
    runs(FIRST, WIDE, stops="9, 9", killed_at="6", slow="True"): (
        "where the first run is killed while it saves"
    ),
    runs(FIRST, WIDE, stops="3, 3", killed_at="1", slow="True"): (
        "where the first run is killed before a checkpoint is complete"
    ),
}
CASES = [Case(call, given) for call, given in GIVEN.items()]
TOLD, RETURNED, SAVING, EARLY = CASES
EXAMPLE = TOLD.call
OTHER = runs(FIRST, HALF, stops="4, 7", bias="False")


def types(seen: Seen) -> list[str]:
    """Write paths, dtypes and shapes of each state that was returned."""
    return [types_by_path(each["state"]) for each in seen.result]


def makes(seen: Seen) -> list[str]:
    """Say how often each run made a state."""
    return [f"make: {each['make']} calls" for each in seen.result]


def batches(seen: Seen) -> list[list[int]]:
    """Give the batches that each run asked for."""
    return [each["batches"] for each in seen.result]


def overlap(found: Any, wanted: Any) -> bool:
    """Tell whether runs end with the same batches, wherever they begin.

    Which checkpoint is complete when a run is killed while it saves is up
    to when it saves, and a run that waits for each has the next one.
    """
    return all(
        (mine and mine == other[-len(mine) :])
        or (other and other == mine[-len(other) :])
        for mine, other in zip(found, wanted, strict=True)
    )


def states(seen: Seen) -> list[Any]:
    """Give each state that was returned."""
    return [each["state"] for each in seen.result]


def first_layouts(seen: Seen) -> dict[str, str]:
    """Describe the shards that the first step of the last run was given.

    A run that trains nothing returns what it has restored.
    """
    last = seen.result[-1]
    return shards_by_path(last["first"] or last["state"])


def returned_layouts(seen: Seen) -> dict[str, str]:
    """Describe the shards of the state that the last run returned."""
    return shards_by_path(seen.result[-1]["state"])


def kept(seen: Seen) -> list[str]:
    """Count the checkpoints that a run has left, by their names."""
    found = []
    for each in seen.result:
        half = [name for name in each["folder"] if "tmp" in name]
        whole = [
            name
            for name in each["folder"]
            if re.search(r"\d", name) and name not in half
        ]
        count = len(whole)
        few = "at most 2" if 0 < count <= 2 else str(count)
        found.append(
            f"{few} complete, unfinished: {', '.join(half) or 'none'}"
        )
    return found


def quantities(attempt: Attempt) -> dict[str, str]:
    """Give what the verdict on a right attempt compares."""
    names = {
        "steps repeated after a kill between saves": (TOLD, 8),
        "steps repeated after a kill while saving": (SAVING, 6),
    }
    return {
        name: str(at - batches(observe(attempt, case))[-1][0])
        for name, (case, at) in names.items()
    }


NO_STATE = "a run does not return the state"
COPIED = (
    "arrays are copied from one device to another: restore each straight "
    "into its sharding in abstract"
)
MADE = (
    "a run that finds a checkpoint takes all of its state from there, and "
    "never calls make; one that finds none calls it once"
)
ASKED = (
    "a run does not ask for each batch once, from the one after its newest "
    "checkpoint: there is a checkpoint after each three steps"
)
ENDED = (
    "a run does not continue where the one before it has returned, which "
    "leaves a checkpoint of its last step"
)
UNFINISHED = (
    "after a kill while saving, the next run does not go on from the "
    "newest complete checkpoint"
)
STATE = (
    "the state is not that of a run that was never killed: check what is "
    "saved and restored, and which batch comes next"
)
RESTORED = "the state is not restored into the shardings of abstract"
FOLDER = (
    "as a run returns, the folder must have its two newest checkpoints or "
    "the only one, all of them complete"
)
CHANGED = (
    "a checkpoint of another model must raise an error, not begin the run "
    "again"
)
HELD_UP = (
    "training waits until each checkpoint is complete: CheckpointManager "
    "saves in the background"
)
BATCH = "A number that is off by one"
CHECKS = (
    same.contract([TOLD, SAVING, EARLY], types, NO_STATE),
    same.contract(TOLD, batches, ASKED, read=BATCH),
    same.contract(
        [SAVING, EARLY], batches, UNFINISHED, agree=overlap, read="The API"
    ),
    same.contract(TOLD, makes, MADE),
    same.contract(
        [SAVING, TOLD], kept, FOLDER, read="A run that does not wait"
    ),
    # Unless a run waits for its files, the next would get in their way.
    same.contract(RETURNED, types, NO_STATE),
    same.contract(RETURNED, batches, ENDED),
    same.contract(RETURNED, makes, MADE),
    same.values(CASES, states, STATE, read="A part of the state"),
    same.placement(CASES, first_layouts, RESTORED, read="The API"),
    same.placement(CASES, returned_layouts, RESTORED, read="The API"),
    same.placement(
        TOLD,
        measures.copies,
        COPIED,
        read="A target without this run's shardings",
        under=measures.guarded_copies,
    ),
    same.refusal(
        OTHER, CHANGED, kind=Exception, read="An error that is caught"
    ),
    same.remark(SAVING, batches, HELD_UP, read="The API"),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("orbax-checkpoint-tmp|invalid literal|Composite", "The API"),
    ("has no attribute|Topology", "A target without this run's shardings"),
    ("No such file|not found|does not exist", "The API"),
    ("deleted|donated", "Problem"),
)
