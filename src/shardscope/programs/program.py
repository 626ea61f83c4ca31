"""Report what a compiled call does, without running it."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import jax
from jax.sharding import NamedSharding

from shardscope.arrays.shards import device_id, devices_in
from shardscope.hlo import Module
from shardscope.peak.constants import constants_of, mark_captured
from shardscope.programs.arguments import arguments_of, paths_of
from shardscope.programs.communication import communication
from shardscope.programs.compiling import (
    compile_lowered,
    lower_call,
    unbind,
)
from shardscope.programs.memory import Memory
from shardscope.programs.names import positional_names
from shardscope.programs.report import Program
from shardscope.programs.versions import versions_of
from shardscope.propagation.lost import lost_if_known
from shardscope.propagation.meshes import meshes_in, sizes_of


def _shardings(compiled: jax.stages.Compiled) -> list[Any]:
    """Give the shardings of what a program takes and returns."""
    return jax.tree.leaves(
        (compiled.input_shardings, compiled.output_shardings)
    )


def _device(compiled: jax.stages.Compiled) -> Any:
    """Give a device that a program is compiled for, if it is known."""
    for each in _shardings(compiled):
        return next(iter(each.device_set))
    return None


def _ids(compiled: jax.stages.Compiled) -> Sequence[int]:
    """Give the ids of a program's devices in its order, if it is known."""
    for each in _shardings(compiled):
        if isinstance(each, NamedSharding):
            return [device_id(device) for device in devices_in(each)]
    return ()


def _meshes(lowered: Any, compiled: Any) -> list[dict[str, int]]:
    """Find the meshes that a program runs on, the arguments' first."""
    meshes = [
        tuple(each.mesh.shape.items())
        for each in _shardings(compiled)
        if isinstance(each, NamedSharding)
    ]
    # A shard_map may have a mesh that no argument has.
    named = meshes_in(lowered.compiler_ir()) if lowered else []
    meshes += [tuple(each.items()) for each in named]
    return list(map(dict, dict.fromkeys(meshes)))


def program(
    function: Callable[..., Any], *args: Any, **kwargs: Any
) -> Program:
    """Compile a call, and report what the program does without running it.

    Modules and Variables stay as they are, even if the function raises an
    error. To ensure this, the attributes of all Modules in the process,
    except those that ``gc.freeze()`` hides, are put back after tracing; no
    other thread may change a Module meanwhile.

    The figures come from the compiler for the devices of the arguments.
    The compiler for another chip may choose other collectives and need
    other memory. The CPU's, for example, makes no reduce-scatter by
    itself. To ask the compiler of another chip, put the shardings of
    abstract arguments on :func:`devices_of` a machine.

    Args:
        function: The function to compile. If it has ``lower``, like the
            results of :func:`jax.jit`, :func:`flax.nnx.jit` and Equinox's
            ``filter_jit``, it is compiled as it is. You may also pass
            what is already lowered or compiled, without arguments. Any
            other function is put under :func:`flax.nnx.jit` if an argument
            is or holds a Module or Variable, and under :func:`jax.jit` if
            none does. Its arrays are then traced, and all other arguments
            (a mesh, a number, a function) are bound. Pass all arrays as
            arguments, because an array that the function captures becomes
            a constant of the program, whole on each device. What a
            :func:`functools.partial` binds, and the object of a jitted
            method, are passed as arguments too:
            ``program(partial(step, model), x)`` is
            ``program(step, model, x)``.
        *args: Arguments of the call, sharded as they would be in the call.
            Arrays may be abstract: a :class:`jax.ShapeDtypeStruct` is
            taken to be where its sharding says, or, without a sharding,
            where the call wants it.
        **kwargs: Keyword arguments of the call.

    Returns:
        The collectives, the bytes on a device, and the arguments that
        have to be copied first, such as NumPy arrays, or arrays on one
        device if the call runs on several. Numbers are left out.

    Raises:
        TypeError: If the function needs the values of an array while it is
            traced, or returns something other than arrays and numbers; or
            if it is a Module or another tree of arrays, a method of one,
            or not a function at all.
            Other errors that the function raises while it is traced are
            passed on. Flax raises some if the function updates a Module or
            Variable that is not an argument; they then have a note that
            says what to write instead.

    Example:
        >>> import jax
        >>> from jax.sharding import NamedSharding, PartitionSpec as P
        >>> from shardscope import program
        >>> auto = jax.sharding.AxisType.Auto
        >>> mesh = jax.make_mesh((2, 4), ("data", "model"), (auto, auto))
        >>> rows = NamedSharding(mesh, P("model"))
        >>> w = jax.device_put(jax.numpy.ones((64, 16)), rows)
        >>> x = jax.numpy.ones((8, 64))
        >>> seen = program(lambda x, w: x @ w, x, w)
        >>> seen.collectives, seen.transfers
        ({'all-reduce': 1}, {'x': 4096})
        >>> seen.memory.arguments, seen.memory.total
        (1536, 2560)
        >>> from functools import partial
        >>> program(partial(jax.numpy.matmul, x), w).transfers
        {'a': 4096}
    """
    return report_call(function, args, kwargs)


def report_call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    any_lines: bool = False,
) -> Program:
    """Compile a call and read its program, as :func:`program` does.

    Args:
        function: The function.
        args: Arguments of the call.
        kwargs: Keyword arguments of the call.
        any_lines: Whether the program may name lines of an older file,
            and so come from jax's cache.
    """
    function, args, kwargs = unbind(function, args, kwargs)
    lowered = None
    if isinstance(function, jax.stages.Compiled):
        compiled = function
    elif isinstance(function, jax.stages.Lowered):
        lowered = function
    elif not callable(function):
        raise TypeError(f"program() takes a function, but got {function!r}")
    else:
        lowered = lower_call(function, args, kwargs)
    if lowered is not None:
        compiled = compile_lowered(lowered, any_lines=any_lines)
    arguments = None
    ignored: tuple[tuple[str, int], ...] = ()
    if lowered is not None and lowered is not function:
        names = positional_names(function, len(args), kwargs)
        given = args, kwargs
        arguments, ignored = arguments_of(given, names, lowered, compiled)
    paths = paths_of(arguments, compiled)
    meshes = _meshes(lowered, compiled)
    text = compiled.as_text() or ""
    module = Module.of(text)
    constants = constants_of(module)
    if lowered is not None:
        constants = mark_captured(constants, lowered)
    device = _device(compiled)
    return Program(
        communication=communication(
            module,
            *meshes,
            ids=_ids(compiled),
            arguments=paths,
        ),
        memory=Memory.of(compiled.memory_analysis(), constants),
        constants=constants,
        arguments=arguments,
        axes=sizes_of(meshes),
        chip=str(device.device_kind) if device else "",
        versions=versions_of(device),
        text=text,
        _module=module,
        _paths=paths,
        _ignored=ignored,
        _find_lost=cache(partial(lost_if_known, lowered, paths)),
    )


def collectives(
    function: Callable[..., Any], *args: Any, **kwargs: Any
) -> dict[str, int]:
    """Count the collectives in the compiled program of a call.

    This is the short form of :func:`program`, with the same arguments and
    errors. It returns how often each kind runs in a call, as in
    ``program(...).collectives``: ``{"all-reduce": 1}``, for example, or
    ``{}`` if no device needs data from another.
    The counts come from the compiler for these devices; the compiler for
    another chip may choose other collectives.
    Copying an argument to other devices is not a collective, but is listed
    in ``program(...).transfers``.

    Example:
        >>> import jax
        >>> from jax.sharding import NamedSharding, PartitionSpec as P
        >>> from shardscope import collectives
        >>> auto = jax.sharding.AxisType.Auto
        >>> mesh = jax.make_mesh((8,), ("model",), (auto,))
        >>> x = jax.device_put(
        ...     jax.numpy.ones((16, 4)), NamedSharding(mesh, P("model"))
        ... )
        >>> collectives(lambda x: 2 * x, x), collectives(jax.numpy.sum, x)
        ({}, {'all-reduce': 1})
    """
    return dict(program(function, *args, **kwargs).collectives)
