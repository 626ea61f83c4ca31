"""What a right ``split_merge_round_trip`` must show."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

import flax
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from flax.nnx.graphlib import MergeContext, SplitContext
from jax.sharding import NamedSharding, PartitionSpec as P, Sharding

from shardbook import observing
from shardbook.grading import (
    Attempt,
    Crashed,
    Wrong,
    mesh_of,
    sample,
    show,
    who_holds,
    would_hold,
)

EXAMPLE = (0.0, sample(16), 64.0)
# Biases for a merged Linear, where that of the model is all ones. The
# largest change adds in one and takes away in the other, so that one of
# them shows that abs is missing. What was compiled for a shape is kept:
# nothing is watched twice with the same shapes.
FAULTS = (
    np.array([-2.0, 5.0, 1.5], np.float32),
    np.array([2.0, -5.0, -1.5, 0.5], np.float32),
)
SPLITS = (nnx.split, nnx.state, nnx.flatten, SplitContext.split)
MERGES = (nnx.merge, nnx.unflatten, MergeContext.merge)
# Flax itself calls the others, but these only for who asks for them ...
ASKED_FOR = (nnx.split, nnx.state, nnx.merge)
# ... or to make a copy, which is not the attempt's merge.
COPIES = (nnx.clone, nnx.map, nnx.Module.__deepcopy__)
FLAX = str(Path(flax.__file__).parent)


def contract(attempt: Attempt) -> None:
    """A float32 array of three, whatever the dtype of x."""
    attempt.returns_array((3,), 0.0, sample(16), 64.0)
    attempt.returns_array((3,), 7.0, jnp.arange(16), 64.0)


def values(attempt: Attempt) -> None:
    """Twice the sum of a Linear's output, and no difference."""
    x = 10 * sample(16, seed=1)
    total = nnx.Linear(16, 64, rngs=nnx.Rngs(11))(x).sum()
    _insist(
        attempt(11.0, x, 64.0),
        [total, total, 0.0],
        "this is not the sum of the first output: build the Linear from "
        "seed, x.shape[-1] and features, and call it on x",
        "the sum of the second output is another, but a round trip changes "
        "no number",
        "the two outputs differ, but a round trip changes no number",
    )
    x = x.at[5].set(jnp.nan)
    poisoned = "a NaN in x reaches every output, and so their sum"
    _insist(
        attempt(11.0, x, 64.0, given="which has a NaN"),
        [np.nan] * 3,
        *(poisoned, poisoned),
        "NaN - NaN is NaN: compute the third number from the two outputs",
        read="Equal outputs, and a difference that is not zero",
    )


def structure(attempt: Attempt) -> None:
    """What merge made is called, and compared with the model itself."""
    for fault in FAULTS:
        _spoil(attempt, fault)


def _spoil(attempt: Attempt, fault: np.ndarray) -> None:
    """Change what merge makes: the numbers must show it."""
    features = fault.size
    x = sample(features + 2, seed=features)
    kernel = _kernel(None, (x.size, features))
    before = 2 * (np.asarray(x) @ np.asarray(kernel) + 1)
    after = before + 2 * (fault - 1)

    def spoil(merged: nnx.Linear) -> None:
        if merged.bias is not None:
            merged.bias = nnx.Param(jnp.asarray(fault))

    def tell_apart(model: nnx.Linear) -> None:
        # Not even a second model of the same seed has these numbers.
        if _any_real(seen.built):
            model.kernel.set_value(3 * model.kernel.get_value())

    def twice(_: nnx.Linear, y: jax.Array) -> jax.Array:
        # What x @ kernel + bias does not give.
        return 2 * y

    given = (
        f"where the bias of a Linear is 1, that of a merged one {fault}, "
        "and the call of a Linear returns twice its output"
    )
    with (
        _linears(init=tell_apart, output=twice) as seen,
        _round_trips(spoil) as trips,
    ):
        got = attempt(5.0, x, float(features), given=given)
    _insist_on_route(seen, trips)
    _insist(
        got,
        [before.sum(), after.sum(), abs(before - after).max()],
        "the first number is not the sum of what the model returns before "
        "the split: call the model",
        "the second number is not the sum of what the merged model "
        "returns: call what nnx.merge gave",
        "the third number is not the largest absolute difference of the "
        "two outputs, entry by entry",
    )


def _insist_on_route(seen: observing.Linears, trips: "_RoundTrips") -> None:
    """A Linear was called, taken apart and joined again."""
    if not seen.calls:
        raise Wrong(
            "no Linear was called on x",
            got="an array from somewhere else",
            expected="the outputs of two calls",
            read="Problem",
        )
    if not trips.merged:
        count = len(seen.built)
        raise Wrong(
            "no Linear was merged: a copy or a second model is not what "
            "comes out of nnx.merge",
            got=f"{count} built" if count != 1 else "1 built, 0 merged",
            expected="1 built, 1 merged from its graphdef and state",
            read="The API",
        )
    if not trips.split:
        raise Wrong(
            "the state was put together by hand: nnx.split gives it, for "
            "any model",
            got="a merge without a split",
            expected="a split and a merge",
            read="The API",
        )


def placement(attempt: Attempt) -> None:
    """Kernel and bias lie afterwards where they lay before."""
    mesh = mesh_of()
    layout = {
        "kernel": NamedSharding(mesh, P(None, "model")),
        "bias": NamedSharding(mesh, P("model")),
    }
    lost: list[tuple[str, str]] = []

    def place(model: nnx.Linear) -> None:
        for name, sharding in layout.items():
            variable = getattr(model, name)
            array = jax.device_put(variable.get_value(), sharding)
            variable.set_value(array)

    def look(model: nnx.Linear, y: jax.Array) -> jax.Array:
        if not _any_real(seen.built):
            # Where an array lies that jit made is for jit to say.
            return y
        for name, sharding in layout.items():
            array = getattr(model, name).get_value()
            if isinstance(array, jax.core.Tracer):
                note = partial(note_whole, name)
                jax.debug.inspect_array_sharding(array, callback=note)
            elif not _lies(array, sharding):
                lost.append((name, who_holds(array)))
        return y

    def note_whole(name: str, sharding: Sharding) -> None:
        # Only the compiler knows, and it gives vmap's axes too.
        if sharding.is_fully_replicated:
            lost.append((name, "each device holds all of it"))

    given = f"where Linear is cut over {mesh.size} devices"
    with _linears(init=place, output=look) as seen:
        try:
            attempt(0.0, sample(8), 32.0, given=given)
        except Crashed:
            # Arrays of different devices do not go together.
            if not lost:
                raise
    if lost:
        name, where = lost[0]
        sharding = layout[name]
        shape = (8, 32) if name == "kernel" else (32,)
        raise Wrong(
            f"the {name} lost its layout: a round trip moves no array",
            got=where,
            expected=would_hold(shape, sharding),
            read="On eight devices",
        )


def _lies(array: Any, sharding: NamedSharding) -> bool:
    """Tell whether an array, which may be numpy's, lies like this."""
    found = getattr(array, "sharding", None)
    return found is not None and found.is_equivalent_to(
        sharding, array.ndim
    )


def _kernel(_: Any, shape: tuple[int, ...], *rest: Any) -> jax.Array:
    """Give a kernel for which no random numbers have to be compiled."""
    return sample(*shape, seed=3)


_linears = partial(
    observing.linears,
    kernel_init=_kernel,
    bias_init=lambda _, shape, *rest: jnp.ones(shape),
)


@dataclass
class _RoundTrips:
    """Whether a model was split, and the Linears that merge made."""

    split: bool = False
    merged: list[nnx.Linear] = field(default_factory=list)


@contextmanager
def _round_trips(
    change: Callable[[nnx.Linear], None],
) -> Iterator[_RoundTrips]:
    """Watch splits and merges, and change each Linear that is merged."""
    seen = _RoundTrips()
    copies = {each.__code__ for each in COPIES}

    def note(function: Any, caller: CodeType, result: Any) -> None:
        asked_for = function in ASKED_FOR and caller not in copies
        if caller.co_filename.startswith(FLAX) and not asked_for:
            return
        if function in SPLITS:
            seen.split = True
            return
        for _, node in nnx.iter_graph(result):
            if isinstance(node, nnx.Linear):
                change(node)
                seen.merged.append(node)

    with observing.returned(note, *SPLITS, *MERGES):
        yield seen


def _any_real(models: Sequence[nnx.Linear]) -> bool:
    """Tell whether one was made for good, and not while jax traces."""
    return any(
        not isinstance(model.kernel.get_value(), jax.core.Tracer)
        for model in models
    )


def _insist(
    got: Any, expected: Any, *whys: str, read: str = "Problem"
) -> None:
    """Compare three numbers, and say of the first that is wrong why."""
    expected = np.asarray(expected, np.float32)
    for number, why in enumerate(whys):
        if getattr(got, "shape", None) != (3,) or not np.isclose(
            *(got[number], expected[number]),
            **{"rtol": 1e-4, "atol": 1e-4, "equal_nan": True},
        ):
            raise Wrong(
                why, got=show(got), expected=show(expected), read=read
            )


# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("Expected a GraphDef", "The API"),
    (
        "contracting dimensions|incompatible shapes",
        "A state of another model",
    ),
    ("'State' object is not callable", "The API"),
    ("deleted or donated", "Donating one twin"),
)
CHECKS = (contract, values, structure, placement)
