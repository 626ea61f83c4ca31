"""Watch the layers and states of flax that an attempt makes and calls.

Most watchers can change what they watch, for the attempt and the solution
alike: an answer that was not computed on the way that a problem asks for
then differs from the solution's.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn, nnx
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardgrade.grading import same
from shardgrade.grading.spies import profiled, replaced


@contextmanager
def nnx_shard_maps() -> Iterator[list[str]]:
    """Give the mode of each ``nnx.shard_map`` that is running.

    Yields:
        ``"graph mode"`` or ``"tree mode"`` for each, the innermost last.
    """
    mesh = AbstractMesh((1,), ("model",))
    # What it makes of any function has the same code, which differs from
    # that of jax.shard_map.
    modes = {
        nnx.shard_map(
            abs, mesh=mesh, in_specs=P(), out_specs=P(), graph=graph
        ).__code__: "graph mode" if graph else "tree mode"
        for graph in (True, False)
    }
    running: list[str] = []

    def look(frame: FrameType, event: str, _: Any) -> None:
        if frame.f_code in modes and event == "call":
            running.append(modes[frame.f_code])
        elif frame.f_code in modes and event == "return":
            running.pop()

    with profiled(look):
        yield running


@dataclass
class LinearCall:
    """A call of an ``nnx.Linear``, and what it held then."""

    module: nnx.Linear
    held: dict[str, Any]


@dataclass
class Watched:
    """What a call did with flax, in order.

    Attributes:
        built: The Linears that were built.
        calls: The calls of Linears.
        states: The States that were made.
        trees: The trees that functions of ``jax.tree`` were given.
    """

    built: list[nnx.Linear] = field(default_factory=list)
    calls: list[LinearCall] = field(default_factory=list)
    states: list[Any] = field(default_factory=list)
    trees: list[Any] = field(default_factory=list)


@contextmanager
def watched(
    *,
    init: Callable[[nnx.Linear], None] | None = None,
    output: Callable[[nnx.Linear, Any], Any] | None = None,
    **arguments: Any,
) -> Iterator[Watched]:
    """Watch every Linear and State, and change the Linears if asked to.

    Args:
        init: Called with each Linear after it was built.
        output: Called with each Linear and what it computed; gives what it
            returns instead.
        **arguments: Arguments to build each Linear with, whatever the
            caller says, such as ``use_bias=False``.

    Yields:
        What was made and called so far.
    """
    seen = Watched()
    build, call = nnx.Linear.__init__, nnx.Linear.__call__
    make = nnx.State.__init__
    maps = {
        each.__code__
        for each in vars(jax.tree_util).values()
        if inspect.isfunction(each) and "tree" in each.__code__.co_varnames
    }

    def watched_build(self: nnx.Linear, *args: Any, **kwargs: Any) -> None:
        # Without jit, each step of a random number is a program to compile.
        with jax.disable_jit(False):
            build(self, *args, **{**kwargs, **arguments})
        if init:
            init(self)
        seen.built.append(self)

    def watched_call(self: nnx.Linear, x: Any, *rest: Any) -> Any:
        # An attempt may have put an array in the place of a Param.
        held = {
            name: value.get_value()
            if isinstance(value, nnx.Variable)
            else value
            for name, value in vars(self).items()
        }
        y = call(self, x, *rest)
        if output:
            y = output(self, y)
        seen.calls.append(LinearCall(self, held))
        return y

    def watched_make(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        seen.states.append(self)

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in maps:
            seen.trees.append(frame.f_locals.get("tree"))

    with (
        replaced(nnx.Linear, "__init__", watched_build),
        replaced(nnx.Linear, "__call__", watched_call),
        replaced(nnx.State, "__init__", watched_make),
        profiled(look),
    ):
        yield seen


def visible_calls(seen: Watched) -> list[LinearCall]:
    """Give the calls of Linears that held arrays: inside of jit none do."""
    return [
        call
        for call in seen.calls
        if seen.built
        and not isinstance(call.held["kernel"], jax.core.Tracer)
    ]


def visible(seen: same.Seen) -> same.Seen:
    """Give the call of which a spy saw arrays: without jit if need be.

    Raises:
        Wrong: If no Linear was built and called.
    """
    for case in (seen.case, same.without_jit(seen.case)):
        found = same.observe(seen.attempt, case)
        if visible_calls(found.noted):
            return found
    raise same.Wrong(
        "no Linear was built and called on x",
        got="an array from somewhere else",
        expected="the output of a Linear",
        read="Problem",
    )


def lay_out(model: nnx.Linear, dtype: Any = jnp.float32) -> None:
    """Shard a Linear by columns over all devices, with a kernel of ones."""
    mesh = inputs.mesh_of(1, jax.device_count())
    # NumPy's: nothing has to be compiled to make them.
    kernel = np.ones(model.kernel.shape, dtype)
    bias = np.zeros(model.kernel.shape[-1:], np.float32)
    for variable, array, spec in (
        (model.kernel, kernel, P(None, "model")),
        (model.bias, bias, P("model")),
    ):
        if variable is not None:
            sharding = NamedSharding(mesh, spec)
            variable.set_value(jax.device_put(array, sharding))


@dataclass
class DenseInit:
    """A Linen ``Dense`` that made its kernel in a box.

    The key that ``init`` was given is known once the program has run:
    never under ``jax.eval_shape``.
    """

    layer: nn.Dense
    params: dict[str, Any]
    keys: list[list[int]] = field(default_factory=list)


@contextmanager
def denses(*kernel: int) -> Iterator[list[DenseInit]]:
    """Watch every Linen ``Dense``, and change its kernel if asked to.

    Args:
        *kernel: The shape of each kernel, whatever the caller says.

    Yields:
        The Denses that made their kernel in a box so far.
    """
    seen: list[DenseInit] = []

    def watch(
        call: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        context: Any,
    ) -> Any:
        layer, scope = context.module, context.module.scope
        if (
            not isinstance(layer, nn.Dense)
            or context.method_name != "__call__"
        ):
            return call(*args, **kwargs)
        if kernel and layer.features != kernel[1]:
            (x,) = (*args, *kwargs.values())
            other = layer.copy(parent=scope, features=kernel[1])
            return other(jnp.resize(x, (*x.shape[:-1], kernel[0])))
        # Where the layer is applied, it has a kernel already.
        fresh = not layer.has_variable("params", "kernel")
        y = call(*args, **kwargs)
        stored: Any = layer.get_variable("params", "kernel")
        if fresh and isinstance(stored, nn.Partitioned):
            made = DenseInit(layer, dict(layer.variables["params"]))
            # Not the key of this layer, which depends on its path.
            key = jax.random.key_data(scope.rngs["params"].rng)
            jax.debug.callback(
                lambda key: made.keys.append(key.tolist()), key
            )
            seen.append(made)
        return y

    with nn.intercept_methods(watch):
        yield seen
    jax.effects_barrier()
