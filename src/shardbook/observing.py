"""Watch what an attempt does, however it imported what it uses.

A spy in the place of ``nnx.merge`` would miss ``from flax.nnx import
merge``. So these look where every route must pass: at methods of classes,
at the one registry by which jax takes trees apart, at the code that is
called.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import jax
from flax import nnx
from jax._src import compiler, shard_map, tree_util
from jax.sharding import AbstractMesh, Mesh, PartitionSpec

from shardbook.communication import count_collectives


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Put something in the place of an attribute, for a while."""
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@dataclass
class LinearCall:
    """A call of an ``nnx.Linear``: of which, on what, and what it held."""

    module: nnx.Linear
    x: jax.Array
    kernel: jax.Array
    bias: jax.Array | None
    y: jax.Array


@dataclass
class Linears:
    """The Linears that were built, and their calls, in order."""

    built: list[nnx.Linear] = field(default_factory=list)
    calls: list[LinearCall] = field(default_factory=list)


@contextmanager
def linears(
    *,
    init: Callable[[nnx.Linear], None] | None = None,
    output: Callable[[nnx.Linear, jax.Array], jax.Array] | None = None,
    **arguments: Any,
) -> Iterator[Linears]:
    """Watch every ``nnx.Linear``, and change it if asked to.

    Args:
        init: Called with each Linear after it was built.
        output: Called with each Linear and what it computed; gives what it
            returns instead.
        **arguments: Arguments to build each Linear with, whatever the
            caller says, such as ``use_bias=False``.

    Yields:
        What was built and called so far.
    """
    seen = Linears()
    build, call = nnx.Linear.__init__, nnx.Linear.__call__

    def watched_build(self: nnx.Linear, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **{**kwargs, **arguments})
        if init:
            init(self)
        seen.built.append(self)

    def watched_call(self: nnx.Linear, x: jax.Array, *rest: Any) -> Any:
        # An attempt may have put an array in the place of a Param.
        kernel, bias = (
            held.get_value() if isinstance(held, nnx.Variable) else held
            for held in (self.kernel, self.bias)
        )
        y = call(self, x, *rest)
        if output:
            y = output(self, y)
        seen.calls.append(LinearCall(self, x, kernel, bias, y))
        return y

    with (
        replaced(nnx.Linear, "__init__", watched_build),
        replaced(nnx.Linear, "__call__", watched_call),
    ):
        yield seen


class _Registry:
    """jax's registry of trees, which notes what it takes apart."""

    def __init__(self, real: Any, trees: list[Any]) -> None:
        self._real, self._trees = real, trees

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def flatten(self, tree: Any, *rest: Any) -> Any:
        self._trees.append(tree)
        return self._real.flatten(tree, *rest)

    def flatten_with_path(self, tree: Any, *rest: Any) -> Any:
        self._trees.append(tree)
        return self._real.flatten_with_path(tree, *rest)


@contextmanager
def trees() -> Iterator[list[Any]]:
    """Note every tree that jax is asked to take apart.

    All of ``jax.tree`` and ``jax.tree_util`` passes here.
    """
    seen: list[Any] = []
    registry = _Registry(tree_util.default_registry, seen)
    with replaced(tree_util, "default_registry", registry):
        yield seen


@dataclass
class Steps:
    """What the code of one file did.

    Attributes:
        called: The code of each function that was called from the file.
        values: What its functions' variables held when they returned, and
            what they returned.
    """

    called: set[CodeType] = field(default_factory=set)
    values: list[Any] = field(default_factory=list)

    def made(self, *functions: Callable[..., Any]) -> bool:
        """Tell whether the file called one of these functions."""
        codes = {getattr(each, "__code__", None) for each in functions}
        return bool(codes & self.called)


@contextmanager
def steps(filename: str) -> Iterator[Steps]:
    """Note what the functions of a file call, hold and return."""
    seen = Steps()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_back is not None:
            if frame.f_back.f_code.co_filename == filename:
                seen.called.add(frame.f_code)
        elif event == "return" and frame.f_code.co_filename == filename:
            seen.values.extend(frame.f_locals.values())
            seen.values.append(argument)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield seen
    finally:
        sys.setprofile(before)


@contextmanager
def returned(
    note: Callable[[Callable[..., Any], CodeType, Any], None],
    *functions: Callable[..., Any],
) -> Iterator[None]:
    """Tell of what some functions return, however they were imported.

    Args:
        note: Called with the function, the code of its caller, and what
            it returns, which may be changed in place.
        *functions: Functions written in Python.
    """
    watched = {id(each.__code__): each for each in functions}

    def look(frame: Any, event: str, result: Any) -> None:
        if event == "return" and frame.f_back is not None:
            function = watched.get(id(frame.f_code))
            if function is not None:
                note(function, frame.f_back.f_code, result)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)


@dataclass(frozen=True)
class ShardMap:
    """A shard_map that was entered: its mesh, and how it cut what."""

    mesh: Mesh | AbstractMesh
    shapes: list[tuple[int, ...]]
    specs: list[PartitionSpec]


@contextmanager
def shard_maps() -> Iterator[list[ShardMap]]:
    """Note every shard_map that is entered, of jax and of flax."""
    seen: list[ShardMap] = []
    kind = type(shard_map.shard_map_p)
    bind = kind.bind_with_trace

    def watched(
        self: Any, trace: Any, args: Any, avals: Any, params: Any, /
    ) -> Any:
        shapes = [each.shape for each in avals]
        specs = list(params["in_specs"])
        seen.append(ShardMap(params["mesh"], shapes, specs))
        return bind(self, trace, args, avals, params)

    with replaced(kind, "bind_with_trace", watched):
        yield seen


@dataclass(frozen=True)
class Program:
    """A program that was compiled: its text, and the bytes it needs."""

    text: str
    bytes: int

    @property
    def collectives(self) -> dict[str, int]:
        """The collectives in it, by kind."""
        return count_collectives(self.text)


@contextmanager
def programs() -> Iterator[list[Program]]:
    """Note every program that is compiled."""
    seen: list[Program] = []
    compile_or_get = compiler.compile_or_get_cached

    def watched(*args: Any, **kwargs: Any) -> Any:
        program = compile_or_get(*args, **kwargs)
        usage = program.get_compiled_memory_stats()
        seen.append(
            Program(
                "\n".join(m.to_string() for m in program.hlo_modules()),
                usage.argument_size_in_bytes
                + usage.output_size_in_bytes
                + usage.temp_size_in_bytes,
            )
        )
        return program

    with replaced(compiler, "compile_or_get_cached", watched):
        yield seen
