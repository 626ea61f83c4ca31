"""Files of layouts and programs, which tests compare with."""

from collections.abc import Mapping
from json import dumps, load
from os import PathLike
from typing import Any

# What is saved, in terms of JSON.
Content = Mapping[str, Any]
FORMAT = 2
# In an earlier format, arguments of a program were numbers, not names.
_EARLIEST = {"layout": 1, "program": 2}
# How each is made, for messages that say how to write a file again.
_CALLS = {"layout": "layout(model)", "program": "program(step, ...)"}
_CLASSES = {"layout": "TreeLayout", "program": "Program"}


def how_to_write(kind: str, path: str | PathLike[str]) -> str:
    """Give the call that writes a file."""
    return f"{_CALLS[kind]}.save({str(path)!r})"


def save(kind: str, content: Content, path: str | PathLike[str]) -> None:
    """Write a file of a kind, ``"layout"`` or ``"program"``.

    Raises:
        FileExistsError: If the file exists.
    """
    head = {"shardscope": kind, "format": FORMAT}
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(_text({**head, **_with_one_mesh(content)}))
    except FileExistsError as error:
        error.add_note(f"Delete it first, if the {kind} should change.")
        raise


def read(path: str | PathLike[str], kind: str = "") -> Content:
    """Read a file that ``save`` wrote.

    Args:
        path: The file.
        kind: What has to be in it: ``"layout"`` or ``"program"``. Either,
            if this is empty.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is of another kind, of a newer format or of one
            that is no longer read, or if ``save`` did not write it.
    """
    how = how_to_write(kind, path) if kind else ""
    what, advice = "a saved layout or program", ""
    if kind:
        what = f"a file that {_CLASSES[kind]}.save wrote"
        # It may be a file of something else, such as the step's source.
        other = how_to_write(kind, "other.json")
        advice = (
            ". Pass such a file, or write one under another name: " + other
        )
    try:
        with open(path, encoding="utf-8") as file:
            found = load(file)
    except FileNotFoundError as error:
        if kind:
            error.add_note(f"To write it: {how}")
        raise
    except ValueError as error:
        raise ValueError(
            f"{path} is not {what} ({error}){advice}"
        ) from None
    head = found if isinstance(found, dict) else {}
    its_kind, number = str(head.get("shardscope", "")), head.get("format")
    if its_kind and isinstance(number, int) and number > FORMAT:
        raise ValueError(
            f"{path} has format {number}, from a newer shardbook; this one "
            f"reads format {FORMAT}. Install the newer one, or delete the "
            "file and write it again"
        )
    if isinstance(number, int) and number < _EARLIEST.get(its_kind, 0):
        raise ValueError(
            f"{path} has format {number}, from an earlier shardbook, which "
            "named arguments by numbers. Write it again: pytest "
            "--shardscope-update, or delete it and call "
            f"{how_to_write(its_kind, path)}"
        )
    if kind and its_kind in _CALLS and its_kind != kind:
        raise ValueError(
            f"{path} is a saved {its_kind}, expected a saved {kind}. To "
            f"compare with it: {_CALLS[its_kind]}.match({str(path)!r})"
        )
    if its_kind not in _CALLS or not _is_whole(found):
        raise ValueError(f"{path} is not {what}{advice}")
    return {**found, "arrays": _each_with_mesh(found)}


def _each_with_mesh(content: Content) -> Content | None:
    """Give the arrays, each with its mesh."""
    if content["arrays"] is None:
        return None
    mesh = {"mesh": content["mesh"]}
    return {
        path: {**mesh, **about}
        if isinstance(about["spec"], list)
        else about
        for path, about in content["arrays"].items()
    }


def _with_one_mesh(content: Content) -> Content:
    """Note a mesh once, and at an array only where it is another."""
    mesh, unknown = content["mesh"], content["arrays"] is None
    arrays = {
        path: {
            name: value
            for name, value in about.items()
            if (name, value) != ("mesh", mesh)
        }
        for path, about in (content["arrays"] or {}).items()
    }
    return {**content, "arrays": None if unknown else arrays}


def _is_whole(content: Content) -> bool:
    """Tell whether a file has all that is read from it."""
    try:
        arrays, mesh = content["arrays"], content["mesh"]
        rows = [*(arrays or {}).values()]
        right = isinstance(mesh, dict) and all(
            isinstance(row["type"], str)
            and isinstance(row["spec"], list | str)
            and isinstance(row["bytes"], int)
            for row in rows
        )
        if content["shardscope"] == "layout":
            return right and arrays is not None
        counts = [*content["memory"].values()]
        moved = content["transfers"] or {}
        counts += [each["bytes"] for each in moved.values()]
        # A file of an earlier version has none.
        if "flops" in content:
            counts.append(content["flops"]["total"])
        for each in content["collectives"]:
            counts += [each["times"], each["sent"]]
            right &= isinstance(each["kind"] + each["over"], str)
        return (
            right
            and all(isinstance(count, int) for count in counts)
            and isinstance(content["chip"], str)
            and isinstance(content["versions"], dict)
        )
    except (AttributeError, KeyError, TypeError):
        return False


def _text(content: Content) -> str:
    """Write JSON with one row a line, for the diff of a pull request."""
    parts = []
    for name, value in content.items():
        key = dumps(name)
        match value:
            case dict():
                rows = [f"{dumps(k)}: {dumps(v)}" for k, v in value.items()]
                around = "{}"
            case list():
                rows, around = [*map(dumps, value)], "[]"
            case _:
                parts.append(f" {key}: {dumps(value)}")
                continue
        inside = ",".join(f"\n  {row}" for row in rows)
        end = "\n " if rows else ""
        parts.append(f" {key}: {around[0]}{inside}{end}{around[1]}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
