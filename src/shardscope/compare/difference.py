"""How two layouts or two programs differ, in words."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from os import PathLike
from typing import Any

from shardscope.arrays.paths import roll_up, write_repeated
from shardscope.compare.files import how_to_write
from shardscope.tables import Column, Table, html_of

# How many changes are printed.
SHOWN = 20

About = Mapping[str, Any]


class LayoutMismatch(AssertionError):  # noqa: N818
    """A layout differs from the one that ``match`` was given."""


class ProgramMismatch(AssertionError):  # noqa: N818
    """A program differs from the file that ``match`` was given."""


@dataclass(frozen=True)
class Change:
    """Something that one of two layouts or programs has otherwise.

    Attributes:
        change: ``"new"``, ``"gone"``, ``"grown"``, ``"shrunk"`` or
            ``"changed"``.
        part: What it is about: ``"machine"``, ``"transfer"``,
            ``"array"``, ``"donation"``, ``"collective"``, ``"sent"`` for
            all collectives together, ``"flops"``, or ``"memory"``.
        words: What has changed, in one short line.
        bytes: How many bytes more there are, negative if less: on a
            device, of a transfer all devices together, or of a collective
            what a device sends in a call. None of FLOPs.
        details: Where that is, or what to do about it, or ``""``.
    """

    change: str
    part: str
    words: str
    bytes: int = 0
    details: str = ""

    def __str__(self) -> str:
        below = f"\n    {self.details}" if self.details else ""
        return f"{self.change}: {self.words}{below}"


# How much it is, then what is changed on purpose or by mistake, and then
# what follows from it.
_ORDER = (
    "machine",
    "sent",
    "flops",
    "memory",
    "transfer",
    "array",
    "donation",
    "collective",
)


@dataclass(frozen=True, repr=False)
class Difference:
    """What differs between two layouts or two programs, printed as lines.

    It is true if there is any change.

    Attributes:
        changes: The changes: first the totals, then of what the program
            is given, then of what it sends. Within each part, the
            costliest come first.
        notes: What could not be compared, and why.
    """

    changes: tuple[Change, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, changes: Iterable[Change], notes: Iterable[str] = ()
    ) -> "Difference":
        """Sort changes, the costliest of each part first."""

        def order(each: Change) -> tuple[int, int]:
            return _ORDER.index(each.part), -abs(each.bytes)

        return cls(tuple(sorted(changes, key=order)), tuple(notes))

    def __bool__(self) -> bool:
        return bool(self.changes)

    def lines(self, limit: int | None = None) -> list[str]:
        """Write each change, with its details below, and then the notes."""
        lines = [*map(str, self.changes[:limit])]
        if rest := len(self.changes) - len(lines):
            lines.append(f"and {rest} more")
        return [*(lines or ["No difference."]), *self.notes]

    def __repr__(self) -> str:
        return "\n".join(self.lines(SHOWN))

    def _repr_html_(self) -> str:
        shown = self.changes[:SHOWN]
        # What the table lacks stands below it.
        below = self.lines(SHOWN)[len(shown) :]
        if not shown:
            return html_of(notes=below)
        rows = tuple((x.change, x.words, x.details) for x in shown)
        columns = (Column("change"), Column("what"), Column("details"))
        return html_of(Table(columns, rows), notes=below)


def require_part(tolerance: float) -> None:
    """Require that a tolerance is a part of a whole."""
    if not (isinstance(tolerance, Real) and 0 <= tolerance <= 1):
        raise ValueError(
            "tolerance is a part, such as 0.02 for 2 percent, from 0 to 1, "
            f"but got {tolerance!r}"
        )


def require_same(
    difference: Difference,
    error: type[AssertionError],
    kind: str,
    path: str | PathLike[str] | None = None,
) -> None:
    """Raise an error with what differs, if anything does."""
    if not difference:
        return
    count = len(difference.changes)
    noun = "difference" if count == 1 else "differences"
    if path is None:
        raise error(f"{count} {noun} from the {kind}:\n{difference!r}")
    raise error(
        f"{count} {noun} from {path}:\n{difference!r}\n"
        f"If this is intended, delete {path} and write it again: "
        f"{how_to_write(kind, path)}"
    )


# --- Arrays ---


def changes_of_arrays(
    before: Mapping[str, About], after: Mapping[str, About]
) -> list[Change]:
    """Compare arrays by path; those of repeated layers share a change."""

    def pair(path: str) -> tuple[Any, ...]:
        return _told(before.get(path)), _told(after.get(path))

    paths = [path for path in {**before, **after} if len({*pair(path)}) > 1]
    return [
        _change_of_arrays(
            write_repeated(name, len(same)),
            len(same),
            before.get(same[0]),
            after.get(same[0]),
        )
        for name, same in roll_up(paths, str, pair)
    ]


def _change_of_arrays(
    path: str, count: int, before: About | None, after: About | None
) -> Change:
    """Say how arrays of repeated layers have changed."""
    if before is None or after is None:
        change, sign = ("new", 1) if after else ("gone", -1)
        *about, size = _told(after or before)
        words = f"{path}, {', '.join(about)}, {size:,} bytes on a device"
        words += " each" * (count > 1)
        return Change(change, "array", words, sign * size * count)
    (*were, old), (*are, new) = _told(before), _told(after)
    parts = [
        f"{was} -> {now}"
        for was, now in zip(were, are, strict=True)
        if was != now
    ]
    if old != new:
        sizes = sized(old, new)
        parts.append(f"{sizes} on a device{' each' * (count > 1)}")
    words = f"{path}: {', '.join(parts)}"
    more = new - old
    return Change(direction(more), "array", words, more * count)


def spec_of(about: About) -> str:
    """Write how an array is sharded."""
    spec = about["spec"]
    if isinstance(spec, str):
        return spec
    words = f"P({', '.join(map(_entry, spec))})"
    if "memory" in about:
        words += f" in {about['memory']}"
    if "unreduced" in about:
        words += f", not reduced over {' and '.join(about['unreduced'])}"
    return words


def _entry(names: list[str]) -> str:
    """Write an entry of a spec."""
    if len(names) > 1:
        return repr(tuple(names))
    return repr(names[0]) if names else "None"


def _mesh_of(about: About) -> str:
    if "mesh" not in about:
        return "no mesh"
    # The order of the axes says nothing about an array.
    return f"a mesh of {sizes_of(dict(sorted(about['mesh'].items())))}"


def sizes_of(mesh: Mapping[str, int]) -> str:
    """Write the sizes of the axes of a mesh."""
    return ", ".join(f"{axis}={size}" for axis, size in mesh.items())


def _told(about: About | None) -> tuple[Any, ...]:
    """Give what two arrays may differ in: words, and bytes."""
    if about is None:
        return ()
    words = (str(about["type"]), spec_of(about), _mesh_of(about))
    return *words, about["bytes"]


def direction(more: int) -> str:
    """Name a change by how many bytes more there are."""
    return "grown" if more > 0 else "shrunk" if more < 0 else "changed"


def sized(before: int, after: int, *, unit: str = "bytes") -> str:
    """Write how many bytes there were and are."""
    return f"{before:,} -> {after:,} {unit}{_part(before, after)}"


def _part(before: int, after: int) -> str:
    """Write what part of it a change is, unless it rounds to nothing."""
    if not before:
        return ""
    part = (after - before) / before
    digits = 2 if abs(part) < 0.005 else 0
    words = f"{part:+.{digits}%}"
    return f" ({words})" if words.strip("+-0.%") else ""
