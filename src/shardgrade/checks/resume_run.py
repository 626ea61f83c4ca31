"""What a right ``resume_run`` must show."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise, takewhile
from typing import Any

import jax

from shardgrade.grading import measures, same

COUNT = jax.device_count()
FIRST, WIDE, HALF = (
    f"mesh_of{sizes}"
    for sizes in ((COUNT // 2, 2), (1, COUNT), (COUNT // 2, 1))
)

YES = "True"


def runs(*meshes: str, stops: str, **more: str) -> str:
    """Start a run on these meshes, one after the other."""
    options = "".join(f", {name}={value}" for name, value in more.items())
    return f"runs_of(resume_run, [{', '.join(meshes)}], [{stops}]{options})"


GIVEN = {
    # The newest checkpoints are of the steps 5 and 10.
    runs(
        FIRST, FIRST, HALF, stops="3, 12, 12", every="5", killed_at="11"
    ): ("where the second run is killed between two saves"),
    # The last run has nothing to train.
    runs(
        *(FIRST, FIRST, WIDE),
        stops="7, 7, 7",
        every="2",
        killed_at="5",
        removing=YES,
    ): "where the first run is killed as it removes a checkpoint",
    # The unfinished checkpoint is of a step that is not saved again.
    runs(
        FIRST, WIDE, stops="10, 10", every="[3, 4]", killed_at="9", slow=YES
    ): "where the first run is killed just after a save, on a slow disk",
    runs(
        FIRST,
        WIDE,
        stops="2, 2",
        every="[1, 2]",
        killed_at="1",
        writing=YES,
        slow=YES,
        refused=YES,
    ): "where the first run is killed as it begins its first checkpoint",
}
CASES = [same.Case(call, given) for call, given in GIVEN.items()]
TOLD, RETURNED, SAVING, EARLY = CASES
EXAMPLE = TOLD.call
OTHERS = [
    runs(FIRST, HALF, stops="1, 2", biases=names, refused=YES)
    for names in ("''", "'c'", "'bc'")
]
# Programs of the second run alone are on several devices.
ONTO_MESH = runs("mesh_of(1, 1)", WIDE, stops="2, 3")


def describe_types(seen: same.Seen) -> list[str]:
    """Write paths, dtypes and shapes of each state that was returned."""
    return [measures.types_by_path(each["state"]) for each in seen.result]


def same_ended(found: dict[str, str], wanted: dict[str, str]) -> bool:
    """Tell whether the same runs came to their end."""
    return found.keys() == wanted.keys()


def count_first(seen: same.Seen) -> str:
    """Say how many steps the first run trains."""
    return f"the first run trains {seen.result[0]['steps']} steps"


def compare_next(seen: same.Seen) -> str:
    """Say whether a run begins where the one before, if it ended, ended."""
    for one, other in pairwise(seen.result):
        first, done = other["batches"][:1], one["batches"][-1:]
        follows = other["run"] == one["run"] + 1 and first and done
        if follows and first[0] != done[0] + 1:
            return (
                f"run {one['run']} ends with batch {done[0]}, and run "
                f"{other['run']} begins with batch {first[0]}"
            )
    return "each run begins with the batch after the last one"


def of_runs(
    words: Callable[[Any], str],
) -> Callable[[same.Seen], dict[str, str]]:
    """Give what says something of each run that was not killed."""
    return lambda seen: {
        f"run {each['run']}:": words(each) for each in seen.result
    }


def list_named(kind: str) -> Callable[[same.Seen], dict[str, str]]:
    """Name what each run has of a kind in its folder as it returns."""
    return of_runs(
        lambda each: f"{kind}: {', '.join(each[kind]) or 'nothing'}"
    )


list_ended = of_runs(lambda each: f"batches {each['batches']}")
count_makes = of_runs(lambda each: f"make: {each['make']} calls")


def count_unused(run: Any) -> str:
    """Count the batches that a run asked for beyond its steps."""
    return f"{len(run['batches']) - run['steps']} batches untrained"


def batches(seen: same.Seen) -> list[list[int]]:
    """Give the batches that each run asked for."""
    return [each["batches"] for each in seen.result]


def compare_begin(seen: same.Seen) -> str:
    """Say whether the run after the killed one begins where that began."""
    runs = enumerate(seen.result)
    killed = next((i for i, each in runs if each["run"] != i + 1), 0)
    start = sum(len(each["batches"]) for each in seen.result[:killed])
    again = seen.result[killed]["batches"][:1] == [start]
    where = "where the killed one began" if again else "later"
    return f"the next run begins {where}"


def length(seen: same.Seen) -> list[int]:
    """Give how many steps each state has seen, as Adam counts them."""
    return [int(each["state"]["opt"][0].count) for each in seen.result]


def not_by_one(found: list[int], wanted: list[int]) -> bool:
    """Tell whether no run is off by one for each run before it."""
    pairs = zip(found, wanted, strict=True)
    return all(abs(mine - other) not in (1, 2) for mine, other in pairs)


def ends(mine: list[int], other: list[int]) -> bool:
    """Tell whether the batches of a run are the last of another."""
    return mine == other[-len(mine) :] if mine else not other


def no_more(found: Any, wanted: Any) -> bool:
    """Tell whether each run has the same batches, or the last of them.

    There may be more checkpoints than the solution's.
    """
    return all(map(ends, found, wanted))


def states(seen: same.Seen) -> list[Any]:
    """Give each state that was returned."""
    return [each["state"] for each in seen.result]


def describe_shards(seen: same.Seen) -> dict[str, str]:
    """Describe the shards that the last run begins and ends with.

    A run that trains nothing returns what it has restored.
    """
    last = seen.result[-1]
    begun = last["first"] or last["state"]
    return measures.shards_by_path(
        {"restored": begun, "returned": last["state"]}
    )


def complete(run: Any) -> list[str]:
    """Give the checkpoints that a run has left, by their names."""
    return [n for n in run["folders"] if re.match(r"(?!.*tmp).*\d", n)]


def count_kept(run: Any) -> str:
    """Count the checkpoints that a run has left."""
    count = len(complete(run))
    return f"{'1 or 2' if count in (1, 2) else count} complete"


def outdated(seen: same.Seen) -> str:
    """Name what the last run of SAVING has left in place of newer ones.

    A name may have any number: those of steps or of last batches count.
    """
    names = complete(seen.result[-1])
    found = {int(re.findall(r"\d+", name)[-1]): name for name in names}
    off = 10 - max(found, default=0)
    older = [found[n] for n in found if off in (0, 1) and n + off < 8]
    return f"older than the two newest: {', '.join(older) or 'none'}"


def describe_refusal(seen: same.Seen) -> str:
    """Say whether an error was raised."""
    return "an error" if "error" in seen.result[-1] else "no error"


def describe_error(seen: same.Seen) -> str:
    """Give the error of the run after one that was killed."""
    error = seen.result[-1].get("error")
    return f"run 2 raises {error}" if error else "run 2 begins at step 0"


def list_lost(seen: same.Seen) -> str:
    """Name the checkpoints that are gone after the error."""
    first, last = map(complete, seen.result)
    gone = sorted({*first} - {*last})
    return f"gone: {', '.join(gone) or 'nothing'}"


@contextmanager
def movements() -> Iterator[Any]:
    """Note copies between devices, and the programs that are run."""
    with (
        measures.note_runs() as ran,
        measures.note_copies() as copied,
    ):
        yield copied, ran


def describe_moves(seen: same.Seen) -> str:
    """Tell whether what was restored has moved before the first step."""
    copied, ran = seen.noted
    if copied:
        return "a copy from one device to another"
    before = takewhile(
        lambda each: not each.text.startswith("HloModule jit_step"),
        filter(measures.is_spread, ran),
    )
    leaves = jax.tree.leaves(seen.result[-1]["state"])
    size = sum(a.addressable_shards[0].data.nbytes for a in leaves)
    if any(p.sent() or p.memory.arguments > size for p in before):
        return "a program that lays out arrays anew, before the first step"
    return "no copy"


def describe_waiting(seen: same.Seen) -> str:
    """Say whether the checkpoint was complete that was being saved."""
    (last,) = seen.result
    waits = last["batches"][:1] == [9]
    return "the run waits" if waits else "the run goes on"


def quantities(attempt: same.Attempt) -> dict[str, str]:
    """Give what the verdict on a right attempt compares."""
    names = {
        "steps repeated after a kill between saves": (TOLD, 11),
        "steps repeated after a kill just after a save": (SAVING, 9),
    }
    return {
        name: str(at - batches(same.observe(attempt, case))[-1][0])
        for name, (case, at) in names.items()
    }


NO_STATE = "a run does not return the state"
IN_PLACE = (
    "the first run is killed while it writes its first checkpoint, of step "
    "1, and the next one takes what is there for complete, or fails at "
    "it: write a checkpoint beside its place, rename it once all is "
    "written, and pass over any other name"
)
NOT_ASKED = (
    "a run does not train exactly its steps, step i with batch i, so the "
    "grader could not kill the run that it meant to"
)
STOPS = "a run must train to the step `stop`, the first one from step 0"
BEGINS = (
    "the data begins again, or leaves some out: the first batch of a run "
    "is the number of steps that its checkpoint has seen"
)
MADE = (
    "a run that finds a complete checkpoint takes all of its state from "
    "there, and never calls make; one that finds none calls it once"
)
NONE = (
    "the run after a killed one does not go on from a complete checkpoint "
    "of it: there must be one after each `every` steps"
)
LOST = (
    "after a kill, the next run does not go on from a complete checkpoint: "
    "keep the older ones until the new one is complete, and pass over what "
    "is unfinished"
)
SHIFTED = (
    "a state has seen a step too many or too few: the number of a "
    "checkpoint, or the end of the loop, is off by one"
)
UNUSED = (
    "a run must call batch once for each step that it trains, and for "
    "no other"
)
ASKED = (
    "a run must ask for exactly the batches that its newest checkpoint "
    "has not seen, up to step `stop`; there must be a checkpoint after "
    "each `every` steps"
)
ENDED = (
    "with nothing left to train, a run must train nothing: the one before "
    "leaves a checkpoint of its last step"
)
ANEW = (
    "a complete checkpoint must stay until a newer one is complete: with "
    "nothing left to train, a run must save nothing anew"
)
STATE = (
    "the state is not that of a run that was never killed: check what is "
    "saved and restored, and which batch comes next"
)
RESTORED = "the state is not restored into the shardings of abstract"
FOLDER = (
    "as a run returns, the newest checkpoint must be directly in the "
    "folder, with a number in its name, and at most the two newest there"
)
CLEANED = "a run must remove what an earlier run has left unfinished"
CHANGED = "a checkpoint of another model must raise an error"
AGAIN = f"{CHANGED}, not begin the run again"
GONE = f"{CHANGED}, and stay in the folder"
HELD_UP = (
    "the checkpoint was complete just after its save: if training waits "
    "for that, let CheckpointManager save in the background"
)
BATCH = "A number that is off by one"
CHECKS = {
    "in_place": same.contract(EARLY, describe_error, IN_PLACE),
    "not_asked": same.contract(
        EARLY, list_ended, NOT_ASKED, agree=same_ended
    ),
    "no_state": same.contract(EARLY, describe_types, NO_STATE),
    # First: unless a run waits for its files, the next gets in their way.
    "waited": same.contract(
        EARLY,
        list_named("unfinished"),
        "as a run returns, its last checkpoint must be complete",
        read="A run that does not wait",
    ),
    "stops": same.contract(TOLD, count_first, STOPS, read=BATCH),
    "begins": same.contract(TOLD, compare_next, BEGINS, read=BATCH),
    "none": same.contract(TOLD, compare_begin, NONE),
    "shifted": same.contract(
        TOLD, length, SHIFTED, read=BATCH, agree=not_by_one
    ),
    "unused": same.contract(TOLD, of_runs(count_unused), UNUSED),
    "asked": same.contract(TOLD, batches, ASKED, read=BATCH, agree=no_more),
    # After what is cheap: the slow disk of SAVING takes seconds.
    "lost": same.contract([RETURNED, SAVING], compare_begin, LOST),
    "made": same.contract(
        TOLD, count_makes, MADE, read="A part of the state"
    ),
    "cleaned": same.contract(
        [SAVING, EARLY], list_named("left over"), CLEANED
    ),
    "ended": same.contract(
        RETURNED, lambda seen: batches(seen)[-1], ENDED, read=BATCH
    ),
    "folder": same.contract(
        [SAVING, TOLD], of_runs(count_kept), FOLDER, read="The API"
    ),
    "folder_2": same.contract(SAVING, outdated, FOLDER, read="The API"),
    "anew": same.contract(RETURNED, list_named("written anew"), ANEW),
    "state": same.values(CASES, states, STATE, read="A part of the state"),
    "restored": same.placement(
        CASES, describe_shards, RESTORED, read="The API"
    ),
    "copied": same.placement(
        ONTO_MESH,
        describe_moves,
        "arrays are restored into other shardings, and laid out anew: "
        "restore each straight into its sharding in abstract",
        read="A target without this run's shardings",
        under=movements,
    ),
    "again": same.contract(
        OTHERS, count_makes, AGAIN, read="An error that is caught"
    ),
    "changed": same.contract(
        OTHERS, describe_refusal, CHANGED, read="An error that is caught"
    ),
    "gone": same.contract(
        OTHERS, list_lost, GONE, read="An error that is caught"
    ),
    "held_up": same.remark(
        SAVING, describe_waiting, HELD_UP, read="The API"
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    (
        "has no attribute|Topology|incompatible devices",
        "A target without this run's shardings",
    ),
)
