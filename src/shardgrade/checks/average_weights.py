"""What a right ``average_weights`` must show."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from shardbook.inputs import train
from shardgrade.grading import measures, same
from shardscope.programs.report import Program

DECAYS = (0.9, 0.9, 0.9, 0.25)
GIVEN = (
    "where it is called four times, with decays of 0.9, 0.9, 0.9 and 0.25; "
    "after each call, train(model) updates and donates the model, and the "
    "next call gets the average that was returned"
)


def cases(given: str = "") -> list[same.Case]:
    """Give a first call on each mesh, and one for another model."""
    one, other = (
        same.on_meshes(f"average_weights(None, {model}, 0.9)", given=given)
        for model in (
            "assorted({mesh})",
            "twice(counted_mlp({mesh}, sharded=True))",
        )
    )
    return one + other[:1]


@dataclass(frozen=True, eq=False)
class Trained:
    """What the calls made, up to one that leaves an array deleted.

    Attributes:
        averages: What each returned, read after the model was trained.
        taken: The arrays of the model that a call has deleted.
        lost: The arrays of an average that training has deleted.
        kept: The arrays of an old average that were not deleted.
        refused: The copy between devices that jax has refused.
        programs: What each call compiled.
    """

    averages: list[Any] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    programs: list[list[Program]] = field(default_factory=list)


@same.cache_case
def train_and_average(attempt: same.Attempt, case: same.Case) -> Trained:
    """Average a model again and again while it is trained."""
    (((average, model, _), _),) = same.arguments(case.call)
    attempt.name_call(case.code, case.given)
    assert attempt.function
    with same.note_calls(attempt) as call:
        made = Trained(programs=call.programs)
        for decay in DECAYS:
            old = same.leaves_by_path(average)
            with measures.note_copies() as refused:
                average = call(attempt.function, average, model, decay)
            made.refused.extend(map(str, refused))
            made.taken.extend(
                same.paths_by_deletion(
                    same.leaves_by_path(model), deleted=True
                )
            )
            if made.refused or made.taken:
                break
            made.kept.extend(same.paths_by_deletion(old, deleted=False))
            new = same.leaves_by_path(average)
            train(model)
            made.lost.extend(same.paths_by_deletion(new, deleted=True))
            if made.lost:
                break
            # A copy, because a view would keep what the next call donates.
            made.averages.append({k: np.array(v) for k, v in new.items()})
    return made


of_calls = partial(same.measure_made, train_and_average)


def list_names(words: str, names: list[str]) -> str:
    """Say which arrays there are."""
    return f"{words}: {', '.join(dict.fromkeys(names)) or 'nothing'}"


def count_programs(call: int, most: int, made: Trained) -> str:
    """Count the programs that a call compiled, if they are too many."""
    number = len(made.programs[call - 1])
    right = ("nothing", "at most one program")[most]
    return f"compiled in call {call}: {number if number > most else right}"


def describe_spread(made: Trained) -> str:
    """Tell whether a program runs on several devices."""
    some = any(
        measures.is_spread(each) for call in made.programs for each in call
    )
    return f"{'a' if some else 'no'} program that runs on the mesh"


def count_collectives(made: Trained) -> str:
    """Count the collectives in all that was compiled."""
    return measures.count_collectives(
        each for call in made.programs for each in call
    )


FIRST, FOUR = cases(), cases(GIVEN)
EXAMPLE = FIRST[0].call
FLOATS = "an average is not float32, or does not have its parameter's shape"
START = "the first average does not have the values of the parameters"
LIKE = "an average is not sharded like its parameter"
AVERAGE = "this is not decay * average + (1 - decay) * parameter in float32"
NOWHERE = "no program runs on the mesh: the host or one device does it all"
MANY = "the average takes more than one program"
AGAIN = (
    "the third call was compiled again, with the same decay: compile the "
    "function once, outside"
)
STATIC = "another decay was compiled again: decay must not be static"
TALK = "each device already has what it needs: exchange nothing"
ALIAS = "An average that is the model"
EAGER = "One program per operation"
DECAY = "A decay that is part of the program"
CHECKS = {
    "state": same.contract(
        FIRST, measures.class_name, "the result is not an nnx.State"
    ),
    "params": same.contract(
        FIRST,
        lambda seen: sorted(measures.paths(seen)),
        "these are not the floating-point nnx.Params of the model, each "
        "once",
    ),
    "floats": same.contract(
        FIRST, lambda seen: measures.types_by_path(seen.result), FLOATS
    ),
    "start": same.values(
        FIRST, lambda seen: same.leaves_by_path(seen.result), START
    ),
    "changed": same.contract(
        FIRST,
        lambda seen: measures.types_by_path(seen.arguments[1]),
        "the call changes the model: return the average alone",
        read=ALIAS,
    ),
    "like": same.placement(
        FIRST, measures.result_layouts, LIKE, read="On eight devices"
    ),
    "copied": same.placement(
        FOUR,
        of_calls(lambda made: list_names("refused", made.refused)),
        "a call copies an array from one device to another",
    ),
    "taken": same.placement(
        FOUR,
        of_calls(lambda made: list_names("deleted", made.taken)),
        "the call donates the model: donate the old average alone",
    ),
    "lost": same.placement(
        FOUR,
        of_calls(lambda made: list_names("deleted", made.lost)),
        "the step that donates the model deletes the average as well: "
        "copy the parameters, even those that are float32 already",
        read=ALIAS,
    ),
    "average": same.values(
        FOUR, of_calls(lambda made: made.averages), AVERAGE
    ),
    "nowhere": same.placement(FOUR, of_calls(describe_spread), NOWHERE),
    "many": same.structure(
        FOUR, of_calls(partial(count_programs, 2, 1)), MANY, read=EAGER
    ),
    "again": same.structure(
        FOUR, of_calls(partial(count_programs, 3, 0)), AGAIN, read=DECAY
    ),
    "static": same.structure(
        FOUR, of_calls(partial(count_programs, 4, 0)), STATIC, read=DECAY
    ),
    "kept": same.placement(
        FOUR,
        of_calls(lambda made: list_names("not deleted", made.kept)),
        "the old average is still on the devices: donate it",
    ),
    "talk": same.communication(FOUR, of_calls(count_collectives), TALK),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (("been deleted", ALIAS),)
