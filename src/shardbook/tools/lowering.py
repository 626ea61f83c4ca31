"""Lower and compile a call, without harm to what it is given."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from shardbook.tools.arguments import is_array
from shardbook.tools.leaves import flax_nnx, is_graph_node

# Whether a program may come from jax's cache, whatever lines it names: who
# shows no lines has it compiled once.
ANY_LINES: ContextVar[bool] = ContextVar("any_lines", default=False)


def compile_lowered(lowered: jax.stages.Lowered) -> jax.stages.Compiled:
    """Compile again if a cached program can name lines of an older file."""
    settings = jax.config.values
    if (
        not settings["jax_compilation_cache_dir"]
        or settings["jax_compilation_cache_include_metadata_in_key"]
        or ANY_LINES.get()
    ):
        return lowered.compile()
    before = settings["jax_enable_compilation_cache"]
    try:
        # jax asks once whether to use the cache, until it is reset.
        jax.config.update("jax_enable_compilation_cache", False)
        compilation_cache.reset_cache()
        # With an option, here of its usual value, jax does not take what
        # it has compiled for a call of the same function.
        return lowered.compile({"xla_embed_ir_in_executable": False})
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
        compilation_cache.reset_cache()


def lower_call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Lower a function, with the arguments bound that are not arrays."""
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

    # Under jax.jit, what a function writes into a Module is lost, and XLA
    # would leave out the work that leads to it.
    has_nodes = any(map(is_graph_node, leaves))
    jitted: Any = (flax_nnx() if has_nodes else jax).jit(call)
    traced = [
        leaf if is_array(leaf) or is_graph_node(leaf) else None
        for leaf in leaves
    ]
    args, kwargs = jax.tree.unflatten(treedef, traced)
    return jitted.lower(*args, **kwargs)


@contextmanager
def modules_unharmed() -> Iterator[None]:
    """Put back what tracing changes in the Modules that there are.

    An nnx.jit inside the traced function empties the Modules that it
    updates, before it finds out that their Variables, which Flax guards,
    belong to another trace.
    """
    # All but those that gc.freeze() hides, because a function reaches them
    # in too many ways to follow. By type, because isinstance() may run
    # code of the object.
    nnx = flax_nnx()
    kept = [
        (vars(node), dict(vars(node)))
        for node in (gc.get_objects() if nnx else ())
        if nnx.Pytree in type(node).__mro__
    ]
    try:
        yield
    except Exception as error:
        if "different trace level" in str(error):
            error.add_note(
                "A Module or Variable that the function updates must be "
                "one of its arguments: write program(step, model, x) "
                "instead of program(lambda x: step(model, x), x)."
            )
        raise
    finally:
        for now, before in kept:
            if now.keys() != before.keys() or any(
                now[name] is not value for name, value in before.items()
            ):
                now.clear()
                now.update(before)


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
            return function, args, kwargs


def unwrap(stage: Any) -> Any:
    """Take what jax has lowered or compiled out of a library's wrapper."""
    for name in ("lowered", "compiled"):
        inner = getattr(stage, name, None)
        if isinstance(inner, jax.stages.Lowered | jax.stages.Compiled):
            return inner
    return stage
