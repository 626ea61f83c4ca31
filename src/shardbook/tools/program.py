"""Report what a compiled call does, without running it."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from os import PathLike
from typing import Any

import jax
from jax.sharding import NamedSharding

from shardbook.tools.arguments import Argument, arguments_of, paths_of
from shardbook.tools.budgets import (
    BudgetExceeded,
    Need,
    bytes_of,
    require_known,
)
from shardbook.tools.communication import (
    KINDS,
    Collective,
    communication,
)
from shardbook.tools.difference import Difference, require_part
from shardbook.tools.flops import Flops, flops_of
from shardbook.tools.hlo import Module
from shardbook.tools.lowering import (
    compile_lowered,
    lower_call,
    modules_unharmed,
    unbind,
    unwrap,
)
from shardbook.tools.machines import MEMORY
from shardbook.tools.memory import Memory, lacks_fusions
from shardbook.tools.operands import names_of_parameters
from shardbook.tools.paths import repeated, roll_up
from shardbook.tools.peak import Peak, peak_of
from shardbook.tools.program_difference import compare, require_saved
from shardbook.tools.record import record_of
from shardbook.tools.rows import bytes_by, rows_of
from shardbook.tools.saved import save
from shardbook.tools.shards import device_id, devices_in
from shardbook.tools.tables import (
    Column,
    Table,
    html_of,
    rows_shown,
    text_of,
)
from shardbook.tools.versions import versions_of

# A longer table is rolled up, then summed up but for the largest.
_SHOWN = 8
_COLLECTIVES = 24
# Before the names in a path, of which the last two stay.
_IN_PATHS = r"(?=\[[^\]]*\]\[)"
# A name, its number, and how many arrays or lines it stands for.
_Row = tuple[str, int, int]


@dataclass(frozen=True, repr=False)
class Program:
    """What the compiled program of a call does, printed as a table.

    Attributes:
        communication: The collectives, each with its mesh axes, its bytes,
            how often it runs, and the line of code that caused it.
        memory: The bytes that XLA assigns to the program on one device.
        inputs: Each array that the program uses, how it is laid out, and
            whether it is donated or moved. None if unknown: the program
            was passed in lowered or compiled, or its arguments have other
            paths.
        axes: The sizes of the mesh axes, by name. They come from the
            meshes of the arguments, then of the results, then of the
            lowered program, because a :func:`jax.shard_map` may have its
            own mesh. If two meshes have an axis of the same name, the
            first mesh decides. Empty if no mesh is known.
        chip: The kind of device that the program is compiled for, as jax
            names it: ``"cpu"``, ``"TPU v5 lite"``. Empty if unknown.
        versions: The versions of jax, jaxlib, which has XLA in it, and
            flax, and on a chip what jax says of its compiler. Empty if
            unknown.
        text: The optimized program, in XLA's HLO.
    """

    communication: tuple[Collective, ...]
    memory: Memory
    inputs: tuple[Argument, ...] | None
    axes: Mapping[str, int]
    chip: str
    versions: Mapping[str, str]
    text: str
    # The paths of the arguments that the program uses, in its order.
    _paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, stats: Any) -> "Program":
        """Describe a program from its compiled form alone.

        Args:
            text: The optimized program, in HLO.
            stats: The result of a :class:`jax.stages.Compiled`'s
                ``memory_analysis()``, or of an executable's
                ``get_compiled_memory_stats()``.
        """
        memory = Memory.of(stats)
        return cls(communication(text), memory, None, {}, "", {}, text)

    @cached_property
    def arguments(self) -> Mapping[str, int] | None:
        """The bytes on one device of each array that the program uses.

        The key is the path as :func:`jax.tree_util.keystr` writes it,
        ``"[0]['kernel']"`` or ``"['x']"``. Arrays that are offloaded to
        the host are not in it. A type below a byte, such as int4, counts
        one byte for each element, as in ``nbytes``, but XLA may pack it.
        None if ``inputs`` is None.
        """
        return self._bytes(False)

    @cached_property
    def host_arguments(self) -> Mapping[str, int] | None:
        """The bytes on the host, for one device, of offloaded arrays.

        They are by path, as in ``arguments``. Empty on CPU, where there is
        only one memory. None if ``inputs`` is None.
        """
        return self._bytes(True)

    def _bytes(self, offloaded: bool) -> Mapping[str, int] | None:
        if self.inputs is None:
            return None
        return {
            each.wanted.path: each.wanted.bytes_per_device
            for each in self.inputs
            if each.offloaded == offloaded
        }

    @cached_property
    def transfers(self) -> Mapping[str, int] | None:
        """The arguments that have to be copied before the program starts.

        They are by path, with the bytes that all devices together receive.
        A device receives its slice unless it already holds exactly this
        slice. None if ``inputs`` is None.
        """
        if self.inputs is None:
            return None
        return {
            each.wanted.path: each.moved
            for each in self.inputs
            if each.moved
        }

    @cached_property
    def _module(self) -> Module:
        return Module.of(self.text)

    @cached_property
    def peak(self) -> Peak:
        """The arrays that a device holds when its memory is fullest.

        Example:
            >>> import jax
            >>> from shardbook import program
            >>> def loss(w, x):
            ...     return jax.nn.softmax(x @ w).max()
            >>> w, x = jax.numpy.ones((64, 1024)), jax.numpy.ones((32, 64))
            >>> peak = program(jax.grad(loss), w, x).peak
            >>> peak.arrays[0].argument, peak.arrays[0].bytes
            ('[0]', 262144)
        """
        names = names_of_parameters(self._module, self._paths)
        return peak_of(self._module, names, self.memory.total)

    @cached_property
    def flops(self) -> Flops:
        """The FLOPs of the matrix products of a call, by line.

        Example:
            >>> import jax
            >>> from shardbook import program
            >>> w, x = jax.numpy.ones((64, 16)), jax.numpy.ones((32, 64))
            >>> program(jax.numpy.matmul, x, w).flops.total
            65536
        """
        return flops_of(self._module, self.sent())

    @property
    def available(self) -> int | None:
        """Bytes of memory that the chip has for a program.

        For a GPU this is the memory in the data sheet, of which JAX
        allocates three quarters by default. None for a chip that
        :func:`devices_of` doesn't know.
        """
        return MEMORY.get(self.chip)

    @property
    def collectives(self) -> dict[str, int]:
        """How often each kind of collective runs in a call.

        For example, ``{"all-reduce": 1}``. A collective in a loop counts
        once per turn, or once if the program does not say how often the
        loop turns. Collectives in branches all count, although a call
        takes only one branch.
        """
        times: Counter[str] = Counter()
        for each in self.communication:
            times[each.kind] += each.times
        return dict(sorted(times.items()))

    def sent(self, *axes: str) -> int:
        """Count the bytes that a device sends in a call.

        If the program does not say how often a collective runs, or how
        much it sends, the count is that of :class:`Collective`. The bytes
        of all branches are added, although a call takes only one.

        Args:
            *axes: Count only collectives between devices that differ in
                exactly these mesh axes. Collectives among only some of the
                devices along these axes (``part`` of
                :class:`Collective`) count too, and so do those that are
                over these axes in one mesh and over others in another.
                Without axes, count all collectives.
        """
        return sum(
            each.sent * each.times
            for each in self.communication
            if not axes or _is_over(each, axes)
        )

    def by(self, key: str) -> dict[str, int]:
        """Sum up the bytes that a device sends in a call, by a key.

        They are counted as in :meth:`sent`.

        Args:
            key: What the bytes are summed by:

                - ``"argument"``: the argument that is moved, by its path
                  as in ``arguments``. A combined collective has several,
                  and each of its arrays counts for itself. Unknown are
                  values that the program computes, such as activations
                  and gradients.
                - ``"line"``: the innermost line, ``source`` of
                  :class:`Collective`.
                - ``"frame"``: each of ``frames`` of :class:`Collective`.
                  A line has the bytes of all that it calls, so the sum is
                  larger than what is sent.
                - ``"axis"``: the mesh axis, or axes joined by ``and``. A
                  collective among only some of the devices along an axis
                  (``part`` of :class:`Collective`) counts for the axis.
                  The names that its axes have in other meshes
                  (``aliases``) are left out.

        Returns:
            The bytes by key, the largest first. The key of what is not
            known is ``"unknown"``.

        Raises:
            ValueError: If the key is none of these.

        Example:
            >>> import jax
            >>> from jax.sharding import NamedSharding, PartitionSpec as P
            >>> from shardbook import program
            >>> auto = jax.sharding.AxisType.Auto
            >>> mesh = jax.make_mesh((8,), ("data",), (auto,))
            >>> rows = NamedSharding(mesh, P("data"))
            >>> x = jax.ShapeDtypeStruct((64, 64), "float32", sharding=rows)
            >>> seen = program(lambda x, w: x @ w["up"], x, {"up": x})
            >>> seen.by("argument"), seen.by("axis")
            ({"[1]['up']": 14336}, {'data': 14336})
        """
        return bytes_by(key, self.communication)

    def save(self, path: str | PathLike[str]) -> None:
        """Write what the program does to a file, for :meth:`expect`.

        The file is JSON with one row a line, to be committed and read in a
        pull request. It has the collectives by kind, axes, direction,
        argument, function and line of code, the memory, the FLOPs of the
        matrix products, the layout of each argument and whether it is
        donated, the transfers, and for which chip, mesh and versions this
        is.

        Raises:
            FileExistsError: If the file exists. Delete it first.
        """
        save("program", record_of(self), path)

    def __sub__(self, other: "Program") -> Difference:
        """Tell how this program differs from another, in words.

        Two rows of collectives match if their kinds, axes, directions and
        arguments are the same, and either their functions or the texts of
        their lines are. So code that has only moved makes no difference.
        If both have changed, one row is gone and another is new. If the
        versions of jax, XLA or flax differ, bytes and FLOPs are compared,
        but not how often a collective runs.

        Example:
            >>> import jax
            >>> from jax.sharding import NamedSharding, PartitionSpec as P
            >>> from shardbook import program
            >>> auto = jax.sharding.AxisType.Auto
            >>> mesh = jax.make_mesh((8,), ("data",), (auto,))
            >>> x = jax.ShapeDtypeStruct((8, 64), "float32")
            >>> rows = NamedSharding(mesh, P("data"))
            >>> before = program(jax.numpy.mean, x.update(sharding=rows))
            >>> whole = NamedSharding(mesh, P())
            >>> after = program(jax.numpy.mean, x.update(sharding=whole))
            >>> print((after - before).changes[1])
            grown: [0]: P('data') -> P(), 256 -> 2,048 bytes (+700%) on a device
        """  # noqa: E501
        if not isinstance(other, Program):
            return NotImplemented
        return compare(record_of(other), record_of(self))

    def expect(
        self,
        path: str | PathLike[str] | None = None,
        *,
        tolerance: float = 0.02,
        collectives: Mapping[str, int] | None = None,
        sent: Mapping[str | tuple[str, ...], int | str] | None = None,
        memory: int | str | None = None,
        transfers: int | str | None = None,
    ) -> "Program":
        """Require what was saved, or a budget, in a test.

        With a file that :meth:`save` wrote, the program must do the same.
        Less is a difference as well as more, because a file that is out of
        date would hide the next regression. The rows are those of
        ``program - other``.

        Budgets limit what a program may need. A size is a number of
        bytes, or text such as ``"1 MiB"``, with B, KiB, MiB, GiB or TiB.
        What has no budget is not checked.

        The need of a program depends on data if it has collectives in
        branches, in loops without a known end, or of kind
        ``"ragged-all-to-all"``. ``expect`` then computes the least and the
        most that a call may need. The program is within a budget if the
        most is, exceeds it if the least does, and is undecided in between.
        For collectives in branches, the least is none and the most is the
        sum over all branches, even if a call takes one branch and all
        branches have the same collectives.

        Args:
            path: A file that :meth:`save` wrote.
            tolerance: By how much bytes and FLOPs may differ from those in
                the file, as a part of all bytes that a device sends, of
                the memory that the program needs, or of all FLOPs. Counts
                of collectives, layouts of arguments, and transfers have to
                be the same.
            collectives: The most collectives of each kind. Kinds that you
                don't name must not occur.
            sent: The most bytes that a device sends over a mesh axis, or
                over several axes that one collective runs over, counted
                as in :meth:`sent`.
            memory: The most bytes that the program needs on a device.
            transfers: The most bytes of arguments that are copied to other
                devices before the program starts.

        Returns:
            This program.

        Raises:
            shardbook.ProgramMismatch: If the program differs from the
                file, with what is new, gone, grown or shrunk. It is an
                AssertionError.
            FileNotFoundError: If there is no such file.
            TypeError: If the path is something else, such as a program.
            BudgetExceeded: If the program exceeds a budget. The message
                has the table, and names undecided budgets too. It is an
                AssertionError.
            ValueError: If the file is for another chip or mesh, or is not
                one of :meth:`save`; if the tolerance is not from 0 to 1;
                if a kind, an axis or a unit is unknown; or if no budget is
                exceeded but one is undecided. The message then names the
                collectives that it depends on.

        Example:
            >>> import jax
            >>> from shardbook import program
            >>> double = jax.jit(lambda x: 2 * x)
            >>> seen = program(double, jax.numpy.ones(1024))
            >>> seen.expect(collectives={}, memory="8 KiB").collectives
            {}
        """
        require_part(tolerance)
        if path is not None:
            require_saved(record_of(self), path, tolerance)
        needs: list[tuple[str, Need, int]] = []
        undecided: list[str] = []
        if collectives is not None:
            require_known("collective", collectives, KINDS)
            for kind in self.collectives:
                need = Need.of(
                    (each, each.times, each.counted)
                    for each in self.communication
                    if each.kind == kind
                )
                needs.append((kind, need, collectives.get(kind, 0)))
        for key, limit in (sent or {}).items():
            names = (key,) if isinstance(key, str) else key
            require_known("mesh axis", names, self.axes)
            need = Need.of(
                (
                    (
                        each,
                        each.sent * each.times,
                        each.exact and bool(each.axes),
                    )
                    for each in self.communication
                    # Where no mesh fits, it may be over any axis.
                    if _is_over(each, names) or not each.axes
                ),
                " bytes",
            )
            name = f"sent over {' and '.join(names)}"
            needs.append((name, need, bytes_of(limit)))
        if memory is not None:
            total = self.memory.total
            need = Need(total, total, " bytes")
            needs.append(("memory", need, bytes_of(memory)))
        if transfers is not None and self.transfers is not None:
            moved = sum(self.transfers.values())
            need = Need(moved, moved, " bytes")
            needs.append(("transfers", need, bytes_of(transfers)))
        elif transfers is not None:
            undecided.append(
                "the transfers of this program are unknown. Pass "
                "program() a function and its arguments: Modules, not "
                "the states that they were split into"
            )
        over = []
        for name, need, limit in needs:
            if need.least > limit:
                over.append(need.against(name, limit))
            elif need.most > limit:
                undecided.append(need.against(name, limit))
        if over:
            raise BudgetExceeded(
                "\n".join([*over, *undecided, "", repr(self)])
            )
        if undecided:
            raise ValueError("\n".join(undecided))
        return self

    @cached_property
    def _tables(self) -> list[Table]:
        memory = {
            "arguments": self.memory.arguments,
            "results": self.memory.results,
            "temporaries": self.memory.temporaries,
            "donated": -self.memory.donated,
        }
        lacking = ", except inside fusions" * lacks_fusions(self.text)
        memory[f"total{lacking}"] = self.memory.total
        if self.available is not None:
            left = self.available - self.memory.total
            memory[f"left of {self.available:,} of {self.chip}"] = left
        if self.memory.host:
            memory["on the host, not in the total"] = self.memory.host
        tables = [_table("memory", "bytes on one device", memory.items())]
        if self.arguments is not None:
            rows = _rolled_up(self.arguments)
            unit = "bytes on one device"
            tables.append(_largest("arguments", unit, rows))
        if self.host_arguments:
            rows = _rolled_up(self.host_arguments)
            unit = "bytes for one device"
            tables.append(_largest("arguments on the host", unit, rows))
        unit = "bytes that a device sends"
        lines = [(*row, 1) for row in rows_of(self.communication)]
        table = _largest("collectives", unit, lines, _COLLECTIVES)
        tables.append(replace(table, joint=_IN_PATHS, then="(?<=, )"))
        if self.transfers is not None:
            rows = _rolled_up(self.transfers)
            title = "transfers before it starts"
            tables.append(_largest(title, "bytes", rows))
        return tables

    def __repr__(self) -> str:
        return text_of(*self._tables)

    def _repr_html_(self) -> str:
        return html_of(*self._tables, kind=" shardbook-program")


def _is_over(each: Collective, names: Iterable[str]) -> bool:
    """Tell whether a collective is over these axes, by any mesh."""
    return any(
        set(axes) == set(names) for axes in (each.axes, *each.aliases)
    )


def _rolled_up(sizes: Mapping[str, int]) -> list[_Row]:
    """Give each array a row, or the arrays of repeated layers one."""
    rows = [(path, size, 1) for path, size in sizes.items()]
    if len(rows) <= _SHOWN:
        return rows
    return [
        (repeated(path, len(alike)), len(alike) * alike[0][1], len(alike))
        for path, alike in roll_up(rows, itemgetter(0), itemgetter(1))
    ]


def _largest(
    title: str, unit: str, rows: Iterable[_Row], limit: int = _SHOWN
) -> Table:
    """Make a table of the largest numbers, and sum up the rest."""
    order = sorted(rows, key=lambda row: -row[1])
    limit = rows_shown(len(order), limit)
    shown = [(name, number) for name, number, _ in order[:limit]]
    if rest := order[limit:]:
        _, numbers, counts = zip(*rest, strict=True)
        shown.append((f"{sum(counts)} others", sum(numbers)))
    table = _table(title, unit, shown)
    return replace(table, hidden=[name for name, *_ in rest])


def _table(
    title: str, unit: str, numbers: Iterable[tuple[str, int]]
) -> Table:
    """Make a table of numbers, of which there may be none."""
    rows = [(name, f"{number:,}") for name, number in numbers]
    return Table(
        (Column(title), Column(unit, right=True)),
        tuple(rows or [("none", "")]),
        keeps_start=True,
        indent="  ",
    )


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
    module = lowered.compiler_ir() if lowered else None
    for each in module.body.operations if module else ():
        if each.operation.name == "sdy.mesh":
            pairs = re.findall(r'"([^"]+)"=(\d+)', str(each))
            meshes.append(tuple((name, int(n)) for name, n in pairs))
    return list(map(dict, dict.fromkeys(meshes)))


def _sizes(meshes: list[dict[str, int]]) -> dict[str, int]:
    """Give the size of each axis, in the first mesh that has the axis."""
    sizes: dict[str, int] = {}
    for mesh in meshes:
        for axis, size in mesh.items():
            sizes.setdefault(axis, size)
    return sizes


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
            arguments, because an array that the function closes over
            becomes a constant of the program. What a
            :func:`functools.partial` binds, and the object of a jitted
            method, are passed as arguments too:
            ``program(partial(step, model), x)`` is
            ``program(step, model, x)``, and ``x`` has the path ``"[1]"``.
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
        >>> from shardbook import program
        >>> auto = jax.sharding.AxisType.Auto
        >>> mesh = jax.make_mesh((2, 4), ("data", "model"), (auto, auto))
        >>> rows = NamedSharding(mesh, P("model"))
        >>> w = jax.device_put(jax.numpy.ones((64, 16)), rows)
        >>> x = jax.numpy.ones((8, 64))
        >>> seen = program(lambda x, w: x @ w, x, w)
        >>> seen.collectives, seen.transfers
        ({'all-reduce': 1}, {'[0]': 4096})
        >>> seen.memory.arguments, seen.memory.total
        (1536, 2560)
        >>> from functools import partial
        >>> program(partial(jax.numpy.matmul, x), w).transfers
        {'[0]': 4096}
    """
    function, args, kwargs = unbind(function, args, kwargs)
    function = unwrap(function)
    lowered = None
    if isinstance(function, jax.stages.Compiled):
        compiled = function
    elif isinstance(function, jax.stages.Lowered):
        lowered = function
    elif not callable(function):
        raise TypeError(f"program() takes a function, but got {function!r}")
    else:
        with modules_unharmed():
            if hasattr(function, "lower"):
                stage = function.lower(*args, **kwargs)
            else:
                stage = lower_call(function, args, kwargs)
        lowered = unwrap(stage)
    if lowered is not None:
        compiled = compile_lowered(lowered)
    inputs = None
    if lowered is not None and lowered is not function:
        inputs = arguments_of((args, kwargs), lowered, compiled)
    paths = paths_of(inputs, compiled)
    meshes = _meshes(lowered, compiled)
    text = compiled.as_text() or ""
    device = _device(compiled)
    return Program(
        communication=communication(
            text,
            *meshes,
            ids=_ids(compiled),
            arguments=paths,
        ),
        memory=Memory.of(compiled.memory_analysis()),
        inputs=inputs,
        axes=_sizes(meshes),
        chip=str(device.device_kind) if device else "",
        versions=versions_of(device),
        text=text,
        _paths=paths,
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
        >>> from shardbook import collectives
        >>> auto = jax.sharding.AxisType.Auto
        >>> mesh = jax.make_mesh((8,), ("model",), (auto,))
        >>> x = jax.device_put(
        ...     jax.numpy.ones((16, 4)), NamedSharding(mesh, P("model"))
        ... )
        >>> collectives(lambda x: 2 * x, x), collectives(jax.numpy.sum, x)
        ({}, {'all-reduce': 1})
    """
    return dict(program(function, *args, **kwargs).collectives)
