"""What a right ``edit_kernels`` must show."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import jax
from flax import nnx

from shardbook import inputs
from shardbook.grading import measures, same, spies
from shardbook.grading.attempt import Crashed
from shardbook.grading.cases import Case, Seen, by_path, on_meshes
from shardbook.grading.differences import type_of


def variables(model: nnx.Module) -> dict[str, Any]:
    """Give the Variables of a model by path; one that is twice, once."""
    flat = nnx.to_flat_state(nnx.state(model))
    return {".".join(map(str, keys)): variable for keys, variable in flat}


@contextmanager
def tagged() -> Iterator[list[tuple[Any, Any]]]:
    """Tag the Variables of a model, and note which array each holds."""
    noted: list[tuple[Any, Any]] = []

    def note(_: Any, caller: Any, model: nnx.Module) -> None:
        for variable in variables(model).values():
            variable.set_metadata(lr_scale=0.1)
            noted.append((variable, variable.get_value()))

    with spies.returned(note, inputs.placed):
        yield noted


@contextmanager
def guarded(
    guard: Callable[[str], AbstractContextManager[Any]],
) -> Iterator[list[Crashed]]:
    """Note a copy that is refused once the model is there."""
    refused: list[Crashed] = []
    with ExitStack() as stack:

        def begin(*_: Any) -> None:
            stack.enter_context(guard("disallow_explicit"))

        try:
            with spies.returned(begin, inputs.placed):
                yield refused
        except Crashed as crash:
            if "Disallowed" not in str(crash.error):
                raise
            refused.append(crash)


def copies(seen: Seen) -> str:
    """Tell whether a guarded call made a copy."""
    return f"{'a' if seen.noted else 'no'} copy"


def model_arrays(seen: Seen) -> dict[str, Any]:
    """Give the arrays of the model, as the call has left them."""
    return by_path(seen.arguments[0])


def types(seen: Seen) -> dict[str, str]:
    """Name the type of each Variable, with its dtype and shape."""
    return {
        path: f"{type(each).__name__} of {type_of(each[...])}"
        for path, each in variables(seen.arguments[0]).items()
    }


def objects(seen: Seen) -> dict[str, str]:
    """Tell which Variables are those of before, with their metadata."""
    before = [id(variable) for variable, _ in seen.noted]
    return {
        path: f"the same Variable, {each.get_metadata()}"
        if id(each) in before
        else "another Variable"
        for path, each in variables(seen.arguments[0]).items()
    }


def arrays(seen: Seen) -> dict[str, str]:
    """Tell which Variables hold the arrays of before."""
    before = [id(array) for _, array in seen.noted]
    return {
        path: f"{'the same' if id(array) in before else 'another'} array"
        for path, array in model_arrays(seen).items()
    }


COUNT = jax.device_count()
MLPS = "named(a=mlp(8, 16, 8), b=mlp(8, 16, 8, 1))"
CASES = on_meshes(
    f"edit_kernels(placed({MLPS}, {{mesh}}), 'a.*kernel', lambda k: 1 - k)",
    "edit_kernels(placed(mlp(8, 16, 8), {mesh}), '.*', new_zeros)",
    "edit_kernels(placed(mlp(8, 16, 8), {mesh}, 'bfloat16'), 'up.kernel', "
    "lambda k: k.astype('float32') - 0.3)",
)
CASES += on_meshes(
    "edit_kernels(placed(vision(16, 8), {mesh}), "
    "r'attention[.](query|key)[.]kernel|norm[.]mean', lambda k: k + 1)"
)[:1]
TWICE = (
    f"edit_kernels(twice(placed(mlp(8, 16, 8), mesh_of({COUNT}, 1))), "
    "'.*kernel', lambda k: k / 2)"
)
TAGGED = [
    Case(call, "where each Variable has the metadata lr_scale", tagged)
    for call in (CASES[0].call, TWICE)
]
LARGE = [
    f"edit_kernels(placed(mlp(8, 1024, 8), mesh_of(1, {COUNT})), "
    f"'up.kernel', {edit})"
    for edit in ("lambda k: -k", "new_zeros")
]
NEGATIVE, ZEROS = LARGE
EXAMPLE = NEGATIVE
NO_MATCH = "edit_kernels(placed(mlp(8, 16, 8), mesh_of(1, 1)), '{}', abs)"
NOTHING = "edit_kernels changes the model in place, and returns None"
TYPE = "an array has another dtype, or its Variable another type"
VALUES = "these are not the values of the model after the edit"
ONCE = "a Variable that the model has twice must be edited, but only once"
REPLACED = "a Variable is another object now, or has other metadata"
TOUCHED = "an array that the pattern does not match is another object now"
LOST = "an array has lost its sharding"
WHOLE = "a program needs far more memory on a device than the shards do"
TALK = "each device can edit its own shards without the others"
COPIED = "an array is made on one device, and copied to the others"
MOVED = "an array leaves its devices on the way, and is copied back"
UNMATCHED = (
    "a pattern that matches no whole path must be a ValueError with the "
    "pattern in its message"
)
SHOWN = "On eight devices"
memory = same.AtMost(3, "bytes on a device")
between = partial(guarded, jax.transfer_guard_device_to_device)
onto = partial(guarded, jax.transfer_guard_host_to_device)
CHECKS = (
    same.contract(CASES, measures.kind, NOTHING),
    same.contract(CASES, types, TYPE),
    same.values(CASES, model_arrays, VALUES),
    same.values(TWICE, model_arrays, ONCE, read="The API"),
    same.structure(TAGGED, objects, REPLACED),
    same.structure(TAGGED, arrays, TOUCHED),
    same.placement(CASES, measures.argument_layouts, LOST, read=SHOWN),
    same.placement(
        LARGE, measures.program_bytes, WHOLE, read=SHOWN, agree=memory
    ),
    same.communication([*CASES, *LARGE], measures.collectives, TALK),
    same.communication(ZEROS, copies, COPIED, read=SHOWN, under=between),
    same.communication(NEGATIVE, copies, MOVED, under=onto),
    *(
        same.refusal(
            NO_MATCH.format(pattern),
            UNMATCHED,
            names=pattern,
        )
        for pattern in ("UP.kernel", "up", "kernel")
    ),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("incompatible devices", "On eight devices"),
    ("[Tt]racer|State|Key|'Array(Impl)?' obj", "The API"),
)
