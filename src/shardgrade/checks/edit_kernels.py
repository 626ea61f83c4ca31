"""What a right ``edit_kernels`` must show."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import jax
from flax import nnx

from shardbook import inputs
from shardgrade.grading import measures, same, spies


@contextmanager
def tagged() -> Iterator[list[tuple[Any, Any]]]:
    """Tag the Variables of a model, and note which array each holds."""
    noted: list[tuple[Any, Any]] = []

    def note(_: Any, caller: Any, model: nnx.Module) -> None:
        for _, variable in nnx.to_flat_state(nnx.state(model)):
            variable.set_metadata(lr_scale=0.1)
            noted.append((variable, variable.get_value()))

    with spies.returned(note, inputs.placed):
        yield noted


@contextmanager
def guarded() -> Iterator[list[same.Crashed]]:
    """Note a copy onto devices that is refused once the model is there."""
    refused: list[same.Crashed] = []
    with ExitStack() as stack:

        def begin(*_: Any) -> None:
            # What is made outside of jit comes from the host as well.
            guard = jax.transfer_guard_host_to_device("disallow_explicit")
            stack.enter_context(guard)

        try:
            with spies.returned(begin, inputs.placed):
                yield refused
        except same.Crashed as crash:
            if "Disallowed" not in str(crash.error):
                raise
            refused.append(crash)


def describe_copies(seen: same.Seen) -> str:
    """Tell whether a guarded call made a copy."""
    return f"{'a' if seen.noted else 'no'} copy onto a device"


def arrays(seen: same.Seen) -> dict[str, Any]:
    """Give the arrays of the model, as the call has left them."""
    return same.leaves_by_path(seen.arguments[0])


def same_variables(seen: same.Seen) -> dict[str, str]:
    """Tell which Variables are those of before, with their metadata."""
    before = [id(variable) for variable, _ in seen.noted]
    return {
        ".".join(
            map(str, keys)
        ): f"the same Variable, {each.get_metadata()}"
        if id(each) in before
        else f"another object: {type(each).__name__}"
        for keys, each in nnx.to_flat_state(nnx.state(seen.arguments[0]))
    }


def same_arrays(seen: same.Seen) -> dict[str, str]:
    """Tell which Variables hold the arrays of before."""
    before = [id(array) for _, array in seen.noted]
    return {
        path: f"{'the same' if id(array) in before else 'another'} array"
        for path, array in arrays(seen).items()
    }


def bytes_on_mesh(seen: same.Seen) -> int:
    """Give the most bytes that a program of several devices needs on one.

    What is edited on one device was copied there, which has its own check.
    """
    programs = filter(
        measures.is_spread, same.compiled_programs(seen.attempt, seen.case)
    )
    return max((each.memory.total for each in programs), default=0)


COUNT = jax.device_count()
# The kernels of an MLP have one shape, and not the same sharding.
MLPS = "named(a=mlp(16, 16, 16), b=mlp(16, 16, 16, 1))"
CASES = same.on_meshes(
    f"edit_kernels(placed({MLPS}, {{mesh}}), 'a.*kernel', lambda k: 1 - k)"
)
# The meshes are tried above: for what follows, one is enough.
for edit in (
    "edit_kernels(placed(mlp(8, 16, 8), {mesh}), '.*', new_zeros)",
    "edit_kernels(placed(mlp(8, 16, 8), {mesh}, 'bfloat16'), 'up.kernel', "
    "lambda k: (k - 0.3).astype('float32'))",
    "edit_kernels(placed(vision(16, 8), {mesh}), r'attention[.](query|key)"
    "[.]kernel|norm[.]mean|dropout[.]rngs[.]count', lambda k: k + 1)",
):
    CASES += same.on_meshes(edit)[:1]
TWICE = (
    f"edit_kernels(twice(placed(mlp(8, 16, 8), mesh_of({COUNT}, 1))), "
    "'.*kernel', lambda k: k / 2)"
)
TAGGED = [
    same.Case(call, "where each Variable has the metadata lr_scale", tagged)
    for call in (CASES[0].call, TWICE)
]
LARGE = [
    f"edit_kernels(placed(mlp(8, 1024, 8), mesh_of(1, {COUNT})), "
    f"'up.kernel', {edit})"
    for edit in ("lambda k: -k", "new_zeros")
]
EXAMPLE = LARGE[0]
# One edit on each mesh: to see programs, all are compiled again.
TALKING: list[same.Case | str] = [*CASES[:3], *LARGE]
# It matches the beginning of a path, and the end.
PATTERN = "up|kernel"
NO_MATCH = (
    f"edit_kernels(placed(mlp(8, 16, 8), mesh_of(1, 1)), '{PATTERN}', abs)"
)
NOTHING = "edit_kernels changes the model in place, and returns None"
DTYPE = "the dtype or the shape of an array has changed"
VALUES = "these are not the values of the model after the edit"
ONCE = "a Variable that the model has twice must be edited, but only once"
REPLACED = "a Variable was replaced, or has other metadata"
TOUCHED = "an array that the pattern does not match is another object now"
LOST = "an array has lost its sharding"
WHOLE = "a program needs far more memory on a device than the shards do"
TALK = "each device can edit its own shards without the others"
COPIED = (
    "an array is copied onto a device, from the host or another device: "
    "what edit makes itself is on one device, unless jit has out_shardings"
)
UNMATCHED = (
    "a pattern that matches no whole path must be a ValueError with the "
    "pattern in its message"
)
SHOWN = "On eight devices"
BYTES = same.AtMost(3, same.HELD)
CHECKS = {
    "nothing": same.contract(CASES, measures.class_name, NOTHING),
    "dtype": same.contract(
        CASES, lambda seen: measures.types_by_path(arrays(seen)), DTYPE
    ),
    "values": same.values(CASES, arrays, VALUES),
    "once": same.values(
        TWICE, arrays, ONCE, read="A Variable edited twice"
    ),
    "replaced": same.structure(TAGGED, same_variables, REPLACED),
    "touched": same.structure(TAGGED, same_arrays, TOUCHED),
    "lost": same.placement(
        CASES, measures.argument_layouts, LOST, read=SHOWN
    ),
    "whole": same.memory(
        LARGE, bytes_on_mesh, WHOLE, read=SHOWN, agree=BYTES
    ),
    "talk": same.communication(TALKING, measures.collectives, TALK),
    "copied": same.communication(
        LARGE, describe_copies, COPIED, read=SHOWN, under=guarded
    ),
    "unmatched": same.refusal(NO_MATCH, UNMATCHED, names=PATTERN),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (("incompatible devices", "On eight devices"),)
