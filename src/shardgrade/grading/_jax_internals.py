"""The private parts of jax that the grader needs, and nothing else.

Tested with jax 0.10.2 and 0.12.0.1. There is no public way to see each
program that a call compiles, nor what a ``shard_map`` is given, nor which
arrays jax takes through the host, nor to wait for other processes without
a collective. Where a part is missing, :class:`MissingInternal` is raised:
the verdict then says which checks did not run.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import jax

from shardgrade.grading.spies import replaced


class MissingInternal(Exception):  # noqa: N818
    """This version of jax lacks a private part that a check needs."""

    def __init__(self, name: str) -> None:
        super().__init__(f"jax {jax.__version__} has no {name}")


def _private(module: str, *names: str) -> Any:
    """Give a private part of jax, or raise MissingInternal."""
    try:
        found = import_module(f"jax._src.{module}")
        for name in names:
            # What a class inherits can't be replaced in it.
            of_class = isinstance(found, type)
            found = vars(found)[name] if of_class else getattr(found, name)
    except (ImportError, AttributeError, KeyError):
        path = ".".join(("jax._src", module, *names))
        raise MissingInternal(path) from None
    return found


@contextmanager
def compilations(note: Callable[[Any, Any], None]) -> Iterator[None]:
    """Call ``note`` with each program that is compiled, and what it was.

    That is its executable, and its module in StableHLO.

    Raises:
        MissingInternal: If jax compiles in another place.
    """
    name = "compile_or_get_cached"
    compiler = _private("compiler")
    compile_or_get_cached = _private("compiler", name)

    def watched(
        backend: Any, module: Any, *args: Any, **kwargs: Any
    ) -> Any:
        executable = compile_or_get_cached(backend, module, *args, **kwargs)
        note(executable, module)
        return executable

    with replaced(compiler, name, watched):
        yield


@contextmanager
def runs(note: Callable[[Any], None]) -> Iterator[None]:
    """Call ``note`` with an executable each time that it is run.

    Raises:
        MissingInternal: If jax runs programs in another way.
    """
    kind = _private("interpreters.pxla", "ExecuteReplicated")
    run = _private("interpreters.pxla", "ExecuteReplicated", "__call__")
    pjit = _private("pjit")
    _private("pjit", "_get_fastpath_data")

    def watched(self: Any, *args: Any) -> Any:
        note(self.xla_executable)
        return run(self, *args)

    # Otherwise only the first call of a function would come by here.
    def no_shortcut(*_: Any, **__: Any) -> None:
        return None

    with (
        replaced(kind, "__call__", watched),
        replaced(pjit, "_get_fastpath_data", no_shortcut),
    ):
        yield


@contextmanager
def shard_maps() -> Iterator[list[Any]]:
    """Give mesh, arguments and specs of each shard_map that is entered.

    The arguments are abstract values; it may be that of jax or of flax.

    Raises:
        MissingInternal: If jax binds ``shard_map`` in another way.
    """
    name = "bind_with_trace"
    of_kind = ("shard_map", "shard_map_p", "__class__")
    kind, bind = _private(*of_kind), _private(*of_kind, name)

    entered: list[Any] = []

    def watched(
        self: Any, trace: Any, args: Any, avals: Any, params: Any, /
    ) -> Any:
        entered.append((params["mesh"], avals, params["in_specs"]))
        return bind(self, trace, args, avals, params)

    with replaced(kind, name, watched):
        yield entered


@contextmanager
def copies_through_host() -> Iterator[list[Any]]:
    """Give the arrays that jax takes to the host, to spread them anew.

    ``device_put`` does so with a sharded array. No transfer guard between
    devices sees it.

    Raises:
        MissingInternal: If jax does it in another way.
    """
    name = "shard_sharded_device_array_slow_path"
    array, take = _private("array"), _private("array", name)

    taken: list[Any] = []

    def watched(x: Any, *args: Any) -> Any:
        taken.append(x)
        return take(x, *args)

    with replaced(array, name, watched):
        yield taken


# The barriers of a process, by number: each has a name of its own.
_BARRIERS = itertools.count()


def wait_for_others() -> None:
    """Wait until all processes are here; none waits if there is one.

    Raises:
        MissingInternal: If jax has no barrier.
    """
    client = _private("distributed", "global_state", "client")
    if client is not None:
        day = 86_400_000
        client.wait_at_barrier(f"shardbook-{next(_BARRIERS)}", day)
