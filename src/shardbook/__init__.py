"""See, and check, how the state of a Flax model is spread over devices."""

import importlib
import sys
from typing import Any

if sys.version_info < (3, 11):  # noqa: UP036
    # With this name, "python -m shardbook" ends with the message alone.
    raise ImportError(
        "shardbook needs Python 3.11 or newer; this is Python "
        f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}",
        name=__name__,
    )

# Where each public name is. They are imported when they are first used:
# the command line answers before it would have imported jax.
_HOMES = {
    "BudgetExceeded": "_program",
    "Collective": "_communication",
    "Drawing": "_draw",
    "Finding": "_findings",
    "LayoutMismatch": "_layout_files",
    "LeafLayout": "_layout",
    "Memory": "_program",
    "Program": "_program",
    "TreeLayout": "_layout",
    "Verdict": "grading.verdict",
    "check": "_check",
    "collectives": "_program",
    "devices_of": "_devices_of",
    "draw": "_draw",
    "layout": "_layout",
    "program": "_program",
    "raises": "_raises",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version(
            "shardbook"
        )
    if name not in _HOMES:
        raise AttributeError(
            f"module 'shardbook' has no attribute {name!r}"
        )
    module = importlib.import_module(f"shardbook.{_HOMES[name]}")
    return getattr(module, name)


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return __all__
