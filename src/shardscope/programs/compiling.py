"""Lower and compile a call, without harm to what it is given."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from shardscope.arrays.leaves import is_array
from shardscope.arrays.modules import (
    is_graph_node,
    jit_for,
    modules_unharmed,
)


def compile_lowered(
    lowered: jax.stages.Lowered, *, any_lines: bool = False
) -> jax.stages.Compiled:
    """Compile again if a cached program can name lines of an older file.

    Args:
        lowered: What to compile.
        any_lines: Whether the program may come from jax's cache, whatever
            lines it names.
    """
    settings = jax.config.values
    if (
        not settings["jax_compilation_cache_dir"]
        or settings["jax_compilation_cache_include_metadata_in_key"]
        or any_lines
    ):
        return lowered.compile()
    with without_cache():
        # With an option, here of its usual value, jax does not take what
        # it has compiled for a call of the same function.
        return lowered.compile({"xla_embed_ir_in_executable": False})


@contextmanager
def without_cache() -> Iterator[None]:
    """Let jax not take programs from its cache of files."""
    before = jax.config.values["jax_enable_compilation_cache"]
    try:
        # jax asks once whether to use the cache, until it is reset.
        jax.config.update("jax_enable_compilation_cache", False)
        compilation_cache.reset_cache()
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
        compilation_cache.reset_cache()


def lower_call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    platform: str = "",
) -> Any:
    """Lower a call, and put back what the function changed of Modules.

    Args:
        function: The function.
        args: Arguments of the call.
        kwargs: Keyword arguments of the call.
        platform: What to lower for, if not for the arguments' devices.
    """
    with modules_unharmed():
        if not hasattr(function, "lower"):
            function, args, kwargs = _jitted(function, args, kwargs)
        stage: Any = function
        if platform:
            traced = stage.trace(*args, **kwargs)
            return unwrap(traced.lower(lowering_platforms=(platform,)))
        return unwrap(stage.lower(*args, **kwargs))


def _jitted(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Put a function under jit, with all bound that is no array."""
    owner = getattr(function, "__self__", function)
    if is_graph_node(owner) or any(map(is_array, jax.tree.leaves(owner))):
        raise TypeError(
            "expected a function that takes its Module as an argument, "
            "such as program(lambda model, x: model(x), model, x); got "
            f"a {type(owner).__name__}, whose arrays would be constants"
        )
    treedef: Any
    leaves, treedef = jax.tree.flatten(
        (args, kwargs), is_leaf=is_graph_node
    )

    def call(*args: Any, **kwargs: Any) -> Any:
        traced = treedef.flatten_up_to((args, kwargs))
        given = [
            bound if leaf is None else leaf
            for bound, leaf in zip(leaves, traced, strict=True)
        ]
        args, kwargs = jax.tree.unflatten(treedef, given)
        return function(*args, **kwargs)

    call.__name__ = getattr(function, "__name__", "call")
    traced = [
        leaf if is_array(leaf) or is_graph_node(leaf) else None
        for leaf in leaves
    ]
    args, kwargs = jax.tree.unflatten(treedef, traced)
    return jit_for(leaves)(call), args, kwargs


def unbind(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Find what a partial or method calls, and all that it passes on."""
    while True:
        # Equinox has a partial of its own.
        if all(
            hasattr(function, name) for name in ("func", "args", "keywords")
        ):
            args = (*function.args, *args)
            kwargs = {**function.keywords, **kwargs}
            function = function.func
        # A method has the lower() of its function, which lacks the object.
        elif hasattr(getattr(function, "__func__", None), "lower"):
            args = (function.__self__, *args)
            function = function.__func__
        else:
            return unwrap(function), args, kwargs


def unwrap(stage: Any) -> Any:
    """Take what jax has lowered or compiled out of a library's wrapper."""
    for name in ("lowered", "compiled"):
        inner = getattr(stage, name, None)
        if isinstance(inner, jax.stages.Lowered | jax.stages.Compiled):
            return inner
    return stage
