"""What the compiled program of a call does."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from os import PathLike
from typing import Any

from shardscope.arrays.finding import Finding
from shardscope.compare.difference import Difference, require_part
from shardscope.compare.files import save
from shardscope.compare.programs import compare, require_saved
from shardscope.hlo import Module, names_of_parameters
from shardscope.machines.devices import MEMORY
from shardscope.peak.constants import Constant, constants_of
from shardscope.peak.peak import Peak, peak_of
from shardscope.programs.arguments import Argument
from shardscope.programs.budgets import require_within
from shardscope.programs.collective import Collective, is_over
from shardscope.programs.communication import communication
from shardscope.programs.findings import NOTED, WRONG, find
from shardscope.programs.flops import Flops, flops_of
from shardscope.programs.head import head_of
from shardscope.programs.known import require_known
from shardscope.programs.memory import Memory
from shardscope.programs.record import record_of
from shardscope.programs.rows import bytes_by
from shardscope.programs.table import legend_of, tables_of
from shardscope.propagation.lost import LostAxis, lost_if_known
from shardscope.tables import filled, html_of, text_of


@dataclass(frozen=True, repr=False)
class Program:
    """What the compiled program of a call does, printed as tables.

    The first lines say what the call needs and sends, what looks wrong
    (:meth:`findings`), and what is worth a look (:meth:`notes`).

    Attributes:
        communication: The collectives, each with its mesh axes, its bytes,
            how often it runs, and the line of code that caused it.
        memory: The bytes that XLA assigns to the program on one device.
        constants: The arrays that are part of the program, the largest
            first, such as those that the function reads from outside.
        arguments: Each array that the program uses, how it is sharded, and
            whether it is donated or copied first. None if unknown: the
            program was passed in lowered or compiled, or its arguments
            have other paths.
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
    constants: tuple[Constant, ...]
    arguments: tuple[Argument, ...] | None
    axes: Mapping[str, int]
    chip: str
    versions: Mapping[str, str]
    text: str
    # The text as it was read.
    _module: Module = field(compare=False)
    # The paths of the arguments that the program uses, in its order.
    _paths: tuple[str, ...] = ()
    # The Modules of which no array is used, and their bytes.
    _ignored: tuple[tuple[str, int], ...] = ()
    # Finds where values lose an axis.
    _find_lost: Callable[[], tuple[LostAxis, ...]] = field(
        default=tuple, compare=False
    )

    @classmethod
    def of(cls, text: str, stats: Any, lowered: Any = None) -> "Program":
        """Describe a program from its compiled form alone.

        Args:
            text: The optimized program, in HLO.
            stats: The result of a :class:`jax.stages.Compiled`'s
                ``memory_analysis()``, or of an executable's
                ``get_compiled_memory_stats()``.
            lowered: The program before, as a module in StableHLO.
        """
        module = Module.of(text)
        constants = constants_of(module)
        return cls(
            communication(module),
            Memory.of(stats, constants),
            constants,
            arguments=None,
            axes={},
            chip="",
            versions={},
            text=text,
            _module=module,
            _find_lost=cache(partial(lost_if_known, lowered)),
        )

    @property
    def lost(self) -> tuple[LostAxis, ...]:
        """Where values lose a mesh axis, as :func:`why` tells it.

        Empty if nothing does, or if this version of jax can't tell.
        """
        return self._find_lost()

    @cached_property
    def argument_bytes(self) -> Mapping[str, int] | None:
        """The bytes on one device of each array that the program uses.

        The key is the name of the argument and the path in it, as
        :func:`layout` writes it: ``"x"``, ``"model.blocks.0.up.kernel"``.
        An argument for which the function has no name is ``"args[0]"``, or
        ``"rest[0]"`` for ``*rest``, and where two paths would be the same,
        they are written as ``"tree['a.b']"``.
        Arrays that are offloaded to the host are not in it. None if
        ``arguments`` is None.
        """
        return self._bytes(False)

    @cached_property
    def host_argument_bytes(self) -> Mapping[str, int] | None:
        """The bytes on the host, for one device, of offloaded arrays.

        They are by path, as in ``argument_bytes``. Empty on CPU, where
        there is only one memory. None if ``arguments`` is None.
        """
        return self._bytes(True)

    def _bytes(self, offloaded: bool) -> Mapping[str, int] | None:
        if self.arguments is None:
            return None
        return {
            each.wanted.path: each.wanted.bytes_per_device
            for each in self.arguments
            if each.offloaded == offloaded
        }

    @cached_property
    def transfers(self) -> Mapping[str, int] | None:
        """The arguments that have to be copied before the program starts.

        They are by path, with the bytes that all devices together receive.
        A device receives its slice unless it already holds exactly this
        slice. None if ``arguments`` is None.
        """
        if self.arguments is None:
            return None
        return {
            each.wanted.path: each.transfer
            for each in self.arguments
            if each.transfer
        }

    @cached_property
    def peak(self) -> Peak:
        """The arrays that a device holds when its memory is fullest.

        Example:
            >>> import jax
            >>> from shardscope import program
            >>> def loss(w, x):
            ...     return jax.nn.softmax(x @ w).max()
            >>> w, x = jax.numpy.ones((64, 1024)), jax.numpy.ones((32, 64))
            >>> peak = program(jax.grad(loss), w, x).peak
            >>> peak.arrays[0].argument, peak.arrays[0].bytes
            ('w', 262144)
        """
        names = names_of_parameters(self._module, self._paths)
        return peak_of(self._module, names, self.memory.total)

    @cached_property
    def flops(self) -> Flops:
        """The FLOPs of the matrix products of a call, by line.

        Example:
            >>> import jax
            >>> from shardscope import program
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

        For the bytes per token, divide by the tokens of the batch that a
        device, or a group of devices with the same rows, computes.

        Where data decides, the count follows a rule: a loop whose end
        depends on data counts as one turn, so a call that turns more often
        sends more; all branches count, although a call takes only one; and
        of a ragged-all-to-all the whole array counts. :meth:`within` gives
        the least and the most.

        Args:
            *axes: Count only collectives between devices that differ in
                exactly these mesh axes. Collectives among only some of the
                devices along these axes (``subgroup`` of
                :class:`Collective`) count too, and so do those that are
                over these axes in one mesh and over others in another.
                Without axes, count all collectives.

        Raises:
            ValueError: If the program's meshes have no axis of that name.
        """
        require_known("mesh axis", axes, self.axes)
        return sum(
            each.sent * each.times
            for each in self.communication
            if not axes or is_over(each, axes)
        )

    def by(self, key: str) -> dict[str, int]:
        """Sum up the bytes that a device sends in a call, by a key.

        They are counted as in :meth:`sent`.

        Args:
            key: What the bytes are summed by:

                - ``"argument"``: the argument that is moved, by its path
                  as in ``argument_bytes``. A combined collective has
                  several, and each of its arrays counts for itself.
                  Unknown are values that the program computes, such as
                  activations and gradients.
                - ``"line"``: the innermost line, ``line`` of
                  :class:`Collective`.
                - ``"frame"``: each of ``frames`` of :class:`Collective`.
                  A line has the bytes of all that it calls, so the sum is
                  larger than what is sent.
                - ``"axis"``: the mesh axis, or axes joined by ``and``. A
                  collective among only some of the devices along an axis
                  (``subgroup`` of :class:`Collective`) counts for the axis.
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
            >>> from shardscope import program
            >>> auto = jax.sharding.AxisType.Auto
            >>> mesh = jax.make_mesh((8,), ("data",), (auto,))
            >>> rows = NamedSharding(mesh, P("data"))
            >>> x = jax.ShapeDtypeStruct((64, 64), "float32", sharding=rows)
            >>> seen = program(lambda x, w: x @ w["up"], x, {"up": x})
            >>> seen.by("argument"), seen.by("axis")
            ({'w.up': 14336}, {'data': 14336})
        """
        return bytes_by(key, self.communication)

    def save(self, path: str | PathLike[str]) -> None:
        """Write what the program does to a file, for :meth:`match`.

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
            >>> from shardscope import program
            >>> auto = jax.sharding.AxisType.Auto
            >>> mesh = jax.make_mesh((8,), ("data",), (auto,))
            >>> x = jax.ShapeDtypeStruct((8, 64), "float32")
            >>> rows = NamedSharding(mesh, P("data"))
            >>> before = program(jax.numpy.mean, x.update(sharding=rows))
            >>> whole = NamedSharding(mesh, P())
            >>> after = program(jax.numpy.mean, x.update(sharding=whole))
            >>> print((after - before).changes[1])
            grown: a: P('data') -> P(), 256 -> 2,048 bytes (+700%) on a device
        """  # noqa: E501
        if not isinstance(other, Program):
            return NotImplemented
        return compare(record_of(other), record_of(self))

    def match(
        self, path: str | PathLike[str], *, tolerance: float = 0.02
    ) -> "Program":
        """Require in a test that the program does what was saved.

        Less is a difference as well as more, because a file that is out of
        date would hide the next regression. The rows are those of
        ``program - other``.

        Args:
            path: A file that :meth:`save` wrote.
            tolerance: By how much bytes and FLOPs may differ from those in
                the file, as a part of all bytes that a device sends, of
                the memory that the program needs, or of all FLOPs. Counts
                of collectives, layouts of arguments, and transfers have to
                be the same.

        Returns:
            This program.

        Raises:
            shardscope.ProgramMismatch: If the program differs from the
                file, with what is new, gone, grown or shrunk. It is an
                AssertionError.
            FileNotFoundError: If there is no such file.
            TypeError: If the path is something else, such as a program.
            ValueError: If the file is for another chip or mesh, or is not
                one of :meth:`save`; or if the tolerance is not from 0 to 1.
        """
        require_part(tolerance)
        require_saved(record_of(self), path, tolerance)
        return self

    def within(
        self,
        *,
        collectives: Mapping[str, int] | None = None,
        sent: Mapping[str | tuple[str, ...], int | str] | None = None,
        memory: int | str | None = None,
        transfers: int | str | None = None,
    ) -> "Program":
        """Require in a test that the program needs no more than a budget.

        A size is a number of bytes, or text such as ``"1 MiB"``, with B,
        KiB, MiB, GiB or TiB. What has no budget is not checked.

        The need of a program depends on data if it has collectives in
        branches, in loops without a known end, or of kind
        ``"ragged-all-to-all"``. Then the least and the most that a call
        may need are computed. The program is within a budget if the most
        is, exceeds it if the least does, and is undecided in between. For
        collectives in branches, the least is none and the most is the sum
        over all branches, even if a call takes one branch and all branches
        have the same collectives.

        Args:
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
            BudgetExceeded: If the program exceeds a budget. The message
                has the table, and names undecided budgets too. It is an
                AssertionError.
            ValueError: If a kind, an axis or a unit is unknown; or if no
                budget is exceeded but one is undecided. The message then
                names the collectives that it depends on, or says that the
                transfers are unknown.

        Example:
            >>> import jax
            >>> from shardscope import program
            >>> double = jax.jit(lambda x: 2 * x)
            >>> seen = program(double, jax.numpy.ones(1024))
            >>> seen.within(collectives={}, memory="8 KiB").collectives
            {}
        """
        require_within(self, collectives, sent, memory, transfers)
        return self

    def findings(self) -> tuple[Finding, ...]:
        """List what looks wrong, the costliest first.

        The program proves each, and each costs more than 64 KiB and more
        than one percent of what a device needs or sends. The arrays of
        repeated layers share a finding. The rules are ``captured``,
        ``copied``, ``resharded``, ``retyped``, ``in_each_turn``,
        ``unplaced`` and ``same_work``.

        Example:
            >>> import jax
            >>> from shardscope import program
            >>> key = jax.random.key(0)
            >>> w = jax.random.normal(key, (512, 512))
            >>> x = jax.numpy.ones((8, 512))
            >>> (found,) = program(lambda x: x @ w, x).findings()
            >>> found.rule, found.bytes
            ('captured', 1048576)
        """
        return find(self, WRONG)

    def notes(self) -> tuple[Finding, ...]:
        """List what is worth a look and may be right, three at most.

        Each says when it is right. The costliest comes first.
        """
        return find(self, NOTED)[:3]

    def __repr__(self) -> str:
        tables = text_of(*tables_of(self))
        lines = [*filled(head_of(self)), tables, *filled(legend_of(tables))]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        tables = tables_of(self)
        return html_of(
            *tables,
            above=head_of(self),
            notes=legend_of(text_of(*tables)),
            kind=" shardscope-program",
        )
