"""What a right ``tree_mode_shard_map`` must show."""

import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import (
    AbstractMesh,
    Mesh,
    NamedSharding,
    PartitionSpec as P,
)

from shardbook import observing
from shardbook.communication import count_collectives
from shardbook.grading import (
    Attempt,
    Wrong,
    compiled,
    mesh_of,
    sample,
    show,
    who_holds,
    would_hold,
)
from shardbook.problems.tree_mode_shard_map import TPLinear

EXAMPLE = (0.0, sample(4, 6), 16.0)
# Here the number of devices is neither all of eight, nor the features, nor
# the most that divide them: it is the gcd, 4.
FEW = (3.0, sample(5, 3, seed=3), 12.0)
# The altered books: what they hold before the first step, and what each
# step adds to cols.
CALLS, N_PYTHON, COLS = 10, 5, 100
ALTERED = (
    f"with a TPLinear whose calls start at {CALLS} and n_python at "
    f"{N_PYTHON}, which has an attribute last, and whose step adds {COLS} "
    "to cols, sets an attribute inside and returns calls * y"
)

# For each entry of the result its name, and what it means if it is wrong.
# The order is that of the explanations: the first that fits is given.
REASONS = {
    0: (
        "y.sum()",
        "it is not that of the unsharded Linear of this seed",
        "A layer that was not cut, and an output that says it was",
    ),
    1: (
        "y[0, -1]",
        "the slices of y are put together along another axis, or in "
        "another order",
        "A spec for each Variable",
    ),
    3: (
        "calls",
        "the writes of step were lost, or there were not two steps",
        "`jax.jit` around it",
    ),
    2: (
        "colsum.sum()",
        "the writes of step were lost, or not all columns came back",
        "`jax.jit` around it",
    ),
    4: (
        "cols",
        "cut the columns of the kernel, so that all devices together hold "
        "each of them once",
        "A spec for each Variable",
    ),
    5: (
        "n_python",
        "tree mode drops a changed Python attribute, graph mode brings it "
        "back",
        "What comes back",
    ),
    6: (
        "last",
        "tree mode drops a new attribute, graph mode brings it back",
        "What comes back",
    ),
}


def contract(attempt: Attempt) -> None:
    """A float32 array of seven entries."""
    attempt.returns_array((7,), *EXAMPLE)
    # No two devices can share nine columns evenly.
    attempt.returns_array((7,), 1.0, sample(5, 3), 9.0)


def values(attempt: Attempt) -> None:
    """What a plain Linear computes, and what two steps note of it."""
    for seed, x, features in ((7.0, EXAMPLE[1], 16.0), FEW):
        y = unsharded(seed, x, features)
        insist(
            attempt(seed, x, features),
            [y.sum(), y[0, -1], 2 * y.sum(), 2, features, 0, 0],
        )


def structure(attempt: Attempt) -> None:
    """Steps of the given Module in tree mode, and answers read from it."""
    y = unsharded(*EXAMPLE)
    # Another step than the given one is found before the call.
    attempt.call = ""
    with altered() as seen, observing.steps(attempt.filename) as steps:
        got = attempt(*EXAMPLE, given=ALTERED)
    if not seen.stepped:
        raise Wrong(
            "step of the given TPLinear did not run under nnx.shard_map, "
            "on a mesh with the axis 'model'",
            got="values from somewhere else",
            expected="TPLinear.step under nnx.shard_map",
            read="Problem",
        )
    colsum = 2 * y.sum() + colsum_before(16).sum()
    calls = CALLS + 2
    insist(
        got,
        [
            *(calls * y.sum(), calls * y[0, -1], colsum),
            *(calls, 16 + COLS, N_PYTHON, 1),
        ],
        "it does not follow the model: read it from there, or from the "
        "second output, after two steps in tree mode",
    )
    for model in models(*seen.built, *steps.values):
        inside = hasattr(model, "inside")
        n_python = getattr(model, "n_python", "missing")
        if inside or n_python != N_PYTHON:
            raise Wrong(
                "what step does to Python attributes came back with the "
                "Module: that is graph mode",
                got=f"n_python {n_python}, "
                f"{'an' if inside else 'no'} attribute inside",
                expected=f"n_python {N_PYTHON}, no attribute inside",
                read="What comes back",
            )


def placement(attempt: Attempt) -> None:
    """Each device has its columns of each Variable, and no others."""
    seed, x, features = FEW
    columns = int(features)
    count = math.gcd(columns, jax.device_count())
    # What was traced before is not entered again, but for other books.
    with (
        altered(),
        observing.shard_maps() as entered,
        observing.steps(attempt.filename) as steps,
    ):
        attempt(seed, x, features, given=ALTERED)
    part = columns // count
    expected = {
        (x.shape[1], columns): ("the kernel", (x.shape[1], part)),
        (columns,): ("bias and colsum", (part,)),
        x.shape: ("x", x.shape),
    }
    for shard_map in entered:
        insist_first(shard_map.mesh, count)
        pairs = zip(shard_map.shapes, shard_map.specs, strict=True)
        for shape, spec in pairs:
            name, wanted = expected.get(shape, ("", ()))
            if name:
                insist_shard(name, shape, shard_map.mesh, spec, wanted)
    shape = (len(x), columns)
    outputs = [
        each
        for each in steps.values
        if is_array(each) and each.shape == shape
    ]
    cut = NamedSharding(mesh_of(count), P(None, "model"))
    if outputs and not any(
        each.sharding.is_equivalent_to(cut, 2) for each in outputs
    ):
        raise Wrong(
            "y is not left where it was computed, each device with its "
            "columns",
            got=who_holds(outputs[0]),
            expected=would_hold(shape, cut),
            read="A spec for each Variable",
        )


def communication(attempt: Attempt) -> None:
    """The devices add up cols, and say nothing else to each other."""
    for program in compiled(attempt):
        for line in program.text.splitlines():
            kinds = count_collectives(line)
            # Outside of the shard_map, y.sum() makes an all-reduce too.
            if not kinds or "/shard_map/" not in line:
                continue
            (kind,) = kinds
            result = line.split(" = ", 1)[1].split(f" {kind}")[0]
            if kind != "all-reduce" or re.search(r"\[\d", result):
                raise Wrong(
                    "the devices exchange more than the number of their "
                    "columns: leave each slice of y where it is, and say "
                    "so in out_specs",
                    got=f"{kind} of {result}",
                    expected="all-reduce of f32[], the psum in step",
                    read="Problem",
                )


def colsum_before(features: int) -> jax.Array:
    """Give what the altered colsum holds before the first step."""
    return jnp.arange(features, dtype=jnp.float32)


@dataclass
class Seen:
    """The Modules that were built, and whether step ran as it should."""

    built: list[TPLinear] = field(default_factory=list)
    stepped: bool = False


@contextmanager
def altered() -> Iterator[Seen]:
    """Keep other books in every TPLinear, and note how step runs.

    An answer that was read from the Module changes with the books. One
    that was typed in does not.
    """
    seen = Seen()

    def build(self: TPLinear, *args: Any, **kwargs: Any) -> None:
        GIVEN_INIT(self, *args, **kwargs)
        self.calls.set_value(jnp.full((), float(CALLS)))
        self.colsum.set_value(colsum_before(*self.colsum.shape))
        self.n_python = N_PYTHON
        # Not a Variable: it would need a spec.
        self.last = "before"
        seen.built.append(self)

    def step(self: TPLinear, x: jax.Array) -> jax.Array:
        # A vmap with an axis of this name is no mesh.
        axes = jax.sharding.get_abstract_mesh().manual_axes
        if "model" in axes and under(nnx.shard_map):
            seen.stepped = True
        # As a plain attribute it can't become a Variable.
        del self.last
        y = GIVEN_STEP(self, x)
        self.cols[...] += COLS
        self.inside = True
        # So the second output differs from the first.
        return y * self.calls[...]

    with ExitStack() as stack:
        for kind in kinds_of(nnx.Module):
            if "__init__" in vars(kind):
                patch = observing.replaced(kind, "__init__", build)
                stack.enter_context(patch)
            if "step" in vars(kind):
                stack.enter_context(instead(vars(kind)["step"], step))
        yield seen


def kinds_of(base: type) -> list[type[TPLinear]]:
    """Find the classes called TPLinear: ours and the attempt's own copy."""
    found = [base] if base.__name__ == TPLinear.__name__ else []
    for kind in base.__subclasses__():
        found += kinds_of(kind)
    return found


GIVEN_INIT = TPLinear.__init__
# A copy that keeps its code.
GIVEN_STEP = FunctionType(TPLinear.step.__code__, TPLinear.step.__globals__)
_steps: list[Callable[[TPLinear, jax.Array], jax.Array]] = []


def _call_step(self: TPLinear, x: jax.Array) -> jax.Array:
    # It runs with the globals of the attempt.
    from shardbook.checks import tree_mode_shard_map

    return tree_mode_shard_map._steps[-1](self, x)


@contextmanager
def instead(function: Any, other: Callable[..., Any]) -> Iterator[None]:
    """Run another step, also where the attempt took it out of the class."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_freevars:
        raise Wrong(
            "TPLinear.step is not the given one",
            got=show(function),
            expected="the method step as the problem has it",
            read="Problem",
        )
    _steps.append(other)
    function.__code__ = _call_step.__code__
    try:
        yield
    finally:
        function.__code__ = code
        _steps.pop()


def under(function: Callable[..., Any]) -> bool:
    """Tell whether what this function returned is running."""
    inside = f"{function.__qualname__}."
    frame = sys._getframe()
    while frame is not None:
        code = frame.f_code
        here = code.co_filename == function.__code__.co_filename
        if here and code.co_qualname.startswith(inside):
            return True
        frame = frame.f_back
    return False


def insist(got: Any, expected: list[Any], why: str = "") -> None:
    """Insist on the seven values, and say what a wrong one means.

    Args:
        got: The result.
        expected: What it should be.
        why: What is wrong in any case, if it is not the reasons above.
    """
    expected = np.asarray(expected, np.float32)
    if getattr(got, "shape", None) != expected.shape:
        raise Wrong(
            "the result has another shape than in the first call",
            got=show(got),
            expected=show(expected),
            read="Problem",
        )
    same = np.isclose(got, expected, rtol=1e-4, atol=1e-4)
    for entry, (name, reason, read) in REASONS.items():
        if not same[entry]:
            raise Wrong(
                f"{name} is wrong: {why or reason}",
                got=show(got),
                expected=show(expected),
                read="Problem" if why and entry < 5 else read,
            )


def unsharded(seed: float, x: jax.Array, features: float) -> jax.Array:
    """Give what a plain Linear computes on one device."""
    rngs = nnx.Rngs(int(seed))
    return nnx.Linear(x.shape[1], int(features), rngs=rngs)(x)


def insist_first(mesh: Mesh | AbstractMesh, count: int) -> None:
    """Insist on a mesh of the first devices, as many as given."""
    expected = jax.devices()[:count]
    if isinstance(mesh, Mesh) and list(mesh.devices.flat) != expected:
        raise Wrong(
            "the mesh is not that of the first gcd(features, "
            "device_count()) devices",
            got=f"devices {[each.id for each in mesh.devices.flat]}",
            expected=f"devices {[each.id for each in expected]}",
            read="Problem",
        )


def insist_shard(
    name: str,
    shape: tuple[int, ...],
    mesh: Mesh | AbstractMesh,
    spec: P,
    expected: tuple[int, ...],
) -> None:
    """Insist on how an argument of a shard_map is cut."""
    got = NamedSharding(mesh, spec).shard_shape(shape)
    if got != expected:
        raise Wrong(
            f"another spec is wanted for {name}: in_specs decides what a "
            "device receives",
            got=f"{spec} for {name}: {got} of {shape}",
            expected=f"{expected} of {shape} for each device",
            read="A spec for each Variable",
        )


def is_array(value: Any) -> bool:
    """Tell an array that holds numbers from one that is being traced."""
    return isinstance(value, jax.Array) and not isinstance(
        value, jax.core.Tracer
    )


def models(*values: Any) -> Iterator[TPLinear]:
    """Pick the TPLinears that hold numbers, not specs or tracers."""
    kinds = tuple(kinds_of(nnx.Module))
    for value in values:
        if isinstance(value, kinds):
            calls = getattr(value, "calls", None)
            held = isinstance(calls, nnx.Variable) and calls.get_value()
            if is_array(held):
                yield value


# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    (
        "axis sizes that are not evenly|evenly divide",
        "A spec for each Variable",
    ),
    (
        "bound methods|unexpected keyword argument",
        "A bound method, a keyword argument",
    ),
    (
        "incompatible shapes|contracting dimensions|too long to be",
        "A spec for each Variable",
    ),
    ("does not match the specs of the input", "A mesh of Explicit axes"),
    ("StateSharding", "`StateSharding` in tree mode"),
    ("prefixes when graph=True", "Which mode is in force"),
    ("unhashable type", "Specs inside the Variables"),
    (
        "input Variables returned|Duplicate",
        "An input Variable as the result",
    ),
    ("different trace level|unbound axis name", "The API"),
    ("replication which can't be", "What comes back"),
    ("^AssertionError", "Problem"),
)
CHECKS = (contract, values, structure, placement, communication)
