"""Compare two programs, as they are saved."""

import re
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from typing import Any

from shardscope.arrays.paths import (
    common_pattern,
    pattern_of,
    roll_up,
    write_repeated,
)
from shardscope.compare.difference import (
    Change,
    Difference,
    ProgramMismatch,
    changes_of_arrays,
    direction,
    require_same,
    sized,
    sizes_of,
    spec_of,
)
from shardscope.compare.files import how_to_write, read

Record = Mapping[str, Any]
Row = Mapping[str, Any]
# The argument of a call that an array is part of.
_ARGUMENT = re.compile(r"^[^.\[]*(?:\[\d+\])?")
# A row may have moved to another line, or its function may be renamed.
_SAME = ("kind", "over", "direction", "argument", "depends on data")
_BY_FUNCTION = (*_SAME, "function")
_BY_LINE = (*_SAME, "line")
# What another version of XLA leaves, however it divides the work.
_BY_AXES = ("kind", "over")
# How many lines a change names.
_LINES = 2


def compare(
    before: Record, after: Record, tolerance: float = 0.0
) -> Difference:
    """Tell how a program differs from another.

    Args:
        before: The record of a program.
        after: The record of the other.
        tolerance: By how much bytes and FLOPs may differ, as a part of
            all bytes that a device sends, of the memory that it needs, or
            of all FLOPs.
    """
    notes = []
    same_versions = before["versions"] == after["versions"]
    if not same_versions:
        notes.append(
            f"Compiled by other versions: {_versions(before, after)}. So "
            "bytes and FLOPs are compared, but not how often collectives "
            "run."
        )
    changes = []
    there, here = machine_of(before), machine_of(after)
    if there != here:
        words = f"the machine: {there} -> {here}"
        changes.append(Change("changed", "machine", words))
    if before["arrays"] is None or after["arrays"] is None:
        notes.append(
            "Arguments and transfers are not compared: they are unknown of "
            "a program that was passed in lowered or compiled."
        )
    else:
        changes += changes_of_arrays(
            _on_the_same_mesh(before, after), after["arrays"]
        )
        changes += _of_transfers(before, after)
        changes += _of_donation(before, after)
    effects = [
        *_of_collectives(before, after, tolerance, same_versions),
        *_of_flops(before, after, tolerance),
        *_of_memory(before, after, tolerance),
    ]
    if effects and before["arrays"] and after["arrays"]:
        notes.append(
            "Begin with the arguments: what is sent, computed and kept in "
            "memory may follow from how they are passed."
            if changes
            else "The arguments are passed as before, so look for the "
            "cause inside the function."
        )
    return Difference.of([*changes, *effects], notes)


def require_saved(
    record: Record, path: str | PathLike[str], tolerance: float
) -> None:
    """Require that a program does what a file says.

    Raises:
        ProgramMismatch: If it does something else.
        TypeError: If the path is not one.
        ValueError: If the file is for another chip or mesh, or is not one.
        FileNotFoundError: If there is none.
    """
    if not isinstance(path, str | PathLike):
        hint = "compare two programs with one - other"
        if isinstance(path, Mapping):
            hint = "for a budget, write within(collectives=...)"
        raise TypeError(
            "match() takes a file that save wrote, but got a "
            f"{type(path).__name__}; {hint}"
        )
    saved = read(path, "program")
    there, here = machine_of(saved), machine_of(record)
    if there != here:
        raise ValueError(
            f"{path} is of a program for {there}, but this program is for "
            f"{here}. Compile for the same chip and mesh, or save another "
            f"file for this one: {how_to_write('program', 'other.json')}"
        )
    difference = compare(saved, record, tolerance)
    require_same(difference, ProgramMismatch, "program", path)


def machine_of(record: Record) -> str:
    """Name the chip and the mesh that a program is for."""
    mesh = sizes_of(record["mesh"])
    return f"{record['chip'] or 'an unknown chip'}, {mesh or 'no mesh'}"


def _on_the_same_mesh(before: Record, after: Record) -> Record:
    """Leave it to the machine to tell of another mesh of the program."""
    meshes = before["mesh"], after["mesh"]

    def has_moved(path: str, about: Record) -> bool:
        other = after["arrays"].get(path, {})
        return (about.get("mesh"), other.get("mesh")) == meshes

    return {
        path: {**about, "mesh": meshes[1]}
        if has_moved(path, about)
        else about
        for path, about in before["arrays"].items()
    }


def _versions(before: Record, after: Record) -> str:
    """Name the versions that differ."""
    old, new = before["versions"], after["versions"]
    return ", ".join(
        f"{name} {old.get(name, 'unknown')} -> {new.get(name, 'unknown')}"
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    )


# --- Transfers ---


def _of_transfers(before: Record, after: Record) -> Iterator[Change]:
    """Compare what has to be copied before a program starts."""
    old, new = before["transfers"], after["transfers"]

    def about(path: str) -> tuple[str, ...]:
        was = before["arrays"].get(path)
        wish = spec_of(was) if was and path not in old else ""
        return repr(old.get(path)), repr(new.get(path)), wish

    paths = [
        path for path in {**old, **new} if old.get(path) != new.get(path)
    ]
    for name, same in roll_up(paths, str, about):
        *_, wish = about(same[0])
        one, other = old.get(same[0]), new.get(same[0])
        sizes = [each["bytes"] if each else 0 for each in (one, other)]
        more = sizes[1] - sizes[0]
        words = f"transfer of {write_repeated(name, len(same))}"
        words += f", {_given(other or one)}, "
        unit = f"{' each,' * (len(same) > 1)} before each call"
        if one and other:
            change = direction(more)
            words += f"{sized(*sizes)}{unit}"
        else:
            change = "new" if other else "gone"
            words += f"{max(sizes):,} bytes{unit}"
        repair = "Place it with jax.device_put before the call"
        repair += f", as {wish}" * bool(wish)
        repair += "; weights once, a batch each time."
        yield Change(
            *(change, "transfer", words, more * len(same)),
            details="" if one else repair,
        )


def _given(about: Record) -> str:
    """Say how an argument was passed in."""
    given = str(about["given"])
    return (
        given if given.startswith("a ") else f"which was given as {given}"
    )


# --- Donation ---


def _of_donation(before: Record, after: Record) -> Iterator[Change]:
    """Compare which arguments give their memory to the results."""
    old, new = _donated(before), _donated(after)
    both = before["arrays"].keys() & after["arrays"].keys()
    lost, more = both & (old - new), both & (new - old)
    sizes = before["memory"]["donated"], after["memory"]["donated"]
    grown = sizes[1] - sizes[0]
    # How much more is reused of the arguments that are donated as before.
    kept = both & old & new
    reused = (
        sizes[1] - _bytes(after, kept) - sizes[0] + _bytes(before, kept)
    )
    for change, paths in (("gone", lost), ("new", more)):
        if paths:
            owners = _owners(paths, before)
            words = f"donation of {owners}, {sized(*sizes)} on a device"
            details = ""
            if paths is lost:
                details = (
                    "The results no longer reuse their memory. To donate "
                    f"them, pass {_donate(owners)} to jax.jit."
                )
            elif not lost and reused <= 0:
                details = (
                    "No result has its shape, dtype and sharding, so its "
                    "memory isn't reused; leave it out of donate_argnums."
                )
            yield Change(change, "donation", words, grown, details)
    if old == new and reused < 0:
        words = f"donation, {sized(*sizes)} on a device"
        details = (
            "The same arguments are donated, but fewer results have the "
            "shape, dtype and sharding of one."
        )
        yield Change("shrunk", "donation", words, grown, details)


def _bytes(record: Record, paths: set[str]) -> int:
    """Count the bytes on a device of some arrays."""
    return sum(int(record["arrays"][path]["bytes"]) for path in paths)


def _donated(record: Record) -> set[str]:
    return {
        path
        for path, about in record["arrays"].items()
        if about.get("donated")
    }


def _owners(paths: set[str], record: Record) -> str:
    """Name whole arguments of a call, or else their arrays."""
    whole: dict[str, list[str]] = {}
    for path in record["arrays"]:
        owner = "".join(_ARGUMENT.findall(path))
        whole.setdefault(owner, []).append(path)
    names = []
    for owner, arrays in whole.items():
        some = [path for path in arrays if path in paths]
        if some == arrays:
            names.append(owner)
        else:
            names += [
                write_repeated(name, len(same))
                for name, same in roll_up(some, str, lambda _: None)
            ]
    return ", ".join(names)


def _donate(owners: str) -> str:
    """Write how arguments are donated, by name if they are whole."""
    names = owners.split(", ")
    if not all(map(str.isidentifier, names)):
        return "donate_argnums"
    return f"donate_argnames={tuple(names)}"


# --- Collectives ---


def _of_collectives(
    before: Record, after: Record, tolerance: float, counts: bool
) -> Iterator[Change]:
    """Compare collectives, wherever in a file their lines are."""
    old, new = [*before["collectives"]], [*after["collectives"]]
    least = tolerance * _sum(old, "sent")

    def alike(some: list[Row], others: list[Row]) -> bool:
        more = abs(_sum(others, "sent") - _sum(some, "sent"))
        return more <= least and (
            not counts or _sum(some, "times") == _sum(others, "times")
        )

    # Programs name their arguments alike only if both know them.
    unknown = before["arrays"] is None or after["arrays"] is None
    by_function, by_line = (
        tuple(x for x in names if x != "argument" or not unknown)
        for names in (_BY_FUNCTION, _BY_LINE)
    )
    for names in (by_function, by_line, *(() if counts else (_BY_AXES,))):
        some, others = _grouped(old, names), _grouped(new, names)
        same = {
            key
            for key in some.keys() & others.keys()
            # A line that is unknown is not the same as another.
            if (names != by_line or key[-1])
            and alike(some[key], others[key])
        }
        old = [row for row in old if _key(row, names) not in same]
        new = [row for row in new if _key(row, names) not in same]
    some, others = _grouped(old, by_function), _grouped(new, by_function)
    pairs = [
        pair
        for key in {**some, **others}
        for pair in _related(some.get(key, []), others.get(key, []))
        if not alike(*pair)
    ]
    for pair in pairs:
        yield _change_of_rows(*pair)
    totals = [_sum(each["collectives"], "sent") for each in (before, after)]
    more = totals[1] - totals[0]
    # Of one row it would say the same again.
    if abs(more) > least and len(pairs) != 1:
        words = f"all collectives, {sized(*totals)} sent in a call"
        yield Change(direction(more), "sent", words, more)


def _sum(rows: Iterable[Row], name: str) -> int:
    return sum(row[name] for row in rows)


def _key(row: Row, names: tuple[str, ...]) -> tuple[str, ...]:
    # How many layers there are decides how an argument is written.
    about = {**row, "argument": _pattern(row)}
    return tuple(str(about.get(name, "")) for name in names)


def _pattern(row: Row) -> str:
    return pattern_of(row.get("argument", ""))


def _related(
    before: list[Row], after: list[Row]
) -> Iterator[tuple[list[Row], list[Row]]]:
    """Part rows of one function from those that they have not become."""

    def split(rows: list[Row], others: list[Row]) -> list[list[Row]]:
        parts: list[list[Row]] = [[], []]
        for row in rows:
            parts[any(_is_related(row, x) for x in others)].append(row)
        return parts

    (gone, old), (new, now) = split(before, after), split(after, before)
    yield from filter(any, ((gone, []), (old, now), ([], new)))


def _is_related(row: Row, other: Row) -> bool:
    """Tell whether two rows share a line, an argument or a type."""
    pairs = (
        (row.get("line"), other.get("line")),
        (_pattern(row), _pattern(other)),
    )
    return any(one and one == two for one, two in pairs) or not {
        *row["arrays"]
    }.isdisjoint(other["arrays"])


def _grouped(
    rows: Iterable[Row], names: tuple[str, ...]
) -> dict[tuple[str, ...], list[Row]]:
    """Group rows that are alike in some things."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(_key(row, names), []).append(row)
    return groups


def _change_of_rows(before: list[Row], after: list[Row]) -> Change:
    """Say how collectives that are alike have changed."""
    old, new = _sum(before, "sent"), _sum(after, "sent")
    times = _sum(before, "times"), _sum(after, "times")
    rows, others = (after, before) if after else (before, after)
    first = rows[0]
    words = f"{first['kind']} of {_what(rows, others)} over {first['over']}"
    if not others:
        change = "new" if after else "gone"
        words = f"{sum(times):,} {words}, {old + new:,} bytes"
    else:
        change = direction(new - old)
        if times[0] != times[1]:
            words += f", {times[0]:,} -> {times[1]:,} times"
        words += f", {sized(old, new)}"
    if first.get("depends on data"):
        words += " at most"
    return Change(
        *(change, "collective", f"{words} sent", new - old),
        details=_origin(rows, others),
    )


def _origin(rows: list[Row], others: list[Row]) -> str:
    """Say where in the code collectives come from."""
    first = rows[0]
    # What has changed is at the lines that are new, if there are any.
    known = [_line(row) for row in others]
    rows = [row for row in rows if _line(row) not in known] or rows
    function = first.get("function")
    lines = dict.fromkeys(row["at"] for row in rows[:_LINES] if row["at"])
    places = [f"{function}()"] * bool(function) + [" and ".join(lines)]
    words = [
        first.get("direction"),
        " ".join(filter(None, places)),
        first.get("line") and f"`{first['line']}`",
    ]
    return ", ".join(filter(None, words))


def _what(rows: list[Row], others: list[Row]) -> str:
    """Name the arrays that collectives move, each if there are few."""
    every = [*rows, *others]
    if all("only" in row for row in every):
        return " and ".join(
            sorted({x for row in every for x in row["only"]})
        )
    names = [
        common_pattern(x["argument"] for x in every if _pattern(x) == same)
        for same in dict.fromkeys(map(_pattern, rows))
        if same
    ]
    return " and ".join(names or rows[0]["arrays"])


def _line(row: Row) -> tuple[Any, ...]:
    return row.get("line"), row.get("caller")


# --- FLOPs and memory ---


def _of_flops(
    before: Record, after: Record, tolerance: float
) -> Iterator[Change]:
    """Compare what two programs compute, if both say it."""
    if "flops" not in before or "flops" not in after:
        return
    old, new = before["flops"]["total"], after["flops"]["total"]
    if abs(new - old) > tolerance * old:
        words = (
            f"matrix products, {sized(old, new, unit='FLOPs')} on a device"
        )
        if not after["flops"]["counted"]:
            words += ", of which some depend on data"
        yield Change(direction(new - old), "flops", words)


def _of_memory(
    before: Record, after: Record, tolerance: float
) -> Iterator[Change]:
    """Compare the memory that two programs need."""
    old, new = before["memory"], after["memory"]
    least = tolerance * old["total"]
    parts = [
        f"{name} {old[name]:,} -> {new[name]:,}"
        for name in old.keys() & new.keys() - {"total"}
        if abs(new[name] - old[name]) > least
    ]
    more = new["total"] - old["total"]
    if parts or abs(more) > least:
        words = f"memory, {sized(old['total'], new['total'])} on a device"
        details = ", ".join(sorted(parts))
        yield Change(direction(more), "memory", words, more, details)
