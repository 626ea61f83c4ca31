"""Refuse a name that is none of those that are known."""

from typing import Any


def require_known(what: str, names: Any, known: Any) -> None:
    """Require that names are among those that are known."""
    for name in names:
        # In a list, because what can't be hashed is unknown too.
        if name not in [*known]:
            choices = ", ".join(map(repr, known))
            end = (
                f". Known: {choices}"
                if known
                else ": this program has no mesh"
            )
            raise ValueError(f"Unknown {what} {name!r}{end}")
