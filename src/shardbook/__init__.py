"""The book: solutions of its problems, their inputs, its pages as text."""

from shardbook.show_error import raises as raises


def __getattr__(name: str) -> object:
    """Say where a name may be that is not here."""
    raise AttributeError(
        f"module 'shardbook' has no attribute {name!r}: layout, draw, "
        "program and the other tools are in shardscope, and check is in "
        "shardgrade"
    )
