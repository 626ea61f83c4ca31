"""Compare a layout with another, or with one that was saved."""

import json
from collections.abc import Mapping
from os import PathLike
from typing import Any

# The arrays of a layout by their paths, in terms of JSON.
Arrays = Mapping[str, Mapping[str, Any]]
# How many differences an error lists.
SHOWN = 20


class LayoutMismatch(AssertionError):  # noqa: N818
    """A layout differs from the one that ``expect`` was given."""


def read_layout(path: str | PathLike[str]) -> Arrays:
    """Read a file that ``save`` has written.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it has something else in it.
    """
    again = (
        f"delete it and write it again: layout(model).save({str(path)!r})"
    )
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError as error:
        error.add_note(f"To write it: layout(model).save({str(path)!r})")
        raise
    except ValueError as error:
        raise ValueError(
            f"{path} is not a saved layout ({error}); {again}"
        ) from None
    if not isinstance(found, dict) or not all(
        isinstance(about, dict)
        and "type" in about
        and isinstance(about.get("spec"), list if "mesh" in about else str)
        for about in found.values()
    ):
        raise ValueError(f"{path} is not a saved layout; {again}")
    return found


def require_same(found: Arrays, wanted: Arrays) -> None:
    """Require that two layouts are the same.

    Raises:
        LayoutMismatch: If they differ, with the paths that do.
    """
    lines = []
    for path in sorted(found.keys() | wanted.keys()):
        one, other = found.get(path), wanted.get(path)
        if one == other:
            continue
        lines.append(f"{path}:")
        lines.append(f"  got      {_describe(one)}")
        lines.append(f"  expected {_describe(other)}")
    if lines:
        count = len(lines) // 3
        if count > SHOWN:
            lines[3 * SHOWN :] = [f"... and {count - SHOWN} more"]
        noun = "array differs" if count == 1 else "arrays differ"
        raise LayoutMismatch("\n".join([f"{count} {noun}", *lines]))


def _describe(about: Mapping[str, Any] | None) -> str:
    """Write how an array is laid out, in one line."""
    if about is None:
        return "no such array"
    spec = about["spec"]
    if isinstance(spec, str):
        return f"{about['type']} {spec}"
    entries = ", ".join(_entry(names) for names in spec)
    sizes = ", ".join(f"{k}={v}" for k, v in about["mesh"].items())
    rest = f" in {about['memory']}" if "memory" in about else ""
    if "unreduced" in about:
        rest += f", not reduced over {' and '.join(about['unreduced'])}"
    return f"{about['type']} P({entries}) on a mesh of {sizes}{rest}"


def _entry(names: list[str]) -> str:
    """Write an entry of a spec."""
    if len(names) > 1:
        return repr(tuple(names))
    return repr(names[0]) if names else "None"
