"""See, and check, how the state of a Flax model is spread over devices."""

import importlib
import sys
from typing import TYPE_CHECKING

if sys.version_info < (3, 11):  # noqa: UP036
    # With this name, "python -m shardbook" ends with the message alone.
    raise ImportError(
        "shardbook needs Python 3.11 or newer; this is Python "
        f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}",
        name=__name__,
    )

# The public names as type checkers find them; a test compares them with
# those that Python finds, below.
if TYPE_CHECKING:
    from shardbook._check import check as check
    from shardbook._communication import Collective as Collective
    from shardbook._devices_of import devices_of as devices_of
    from shardbook._draw import Drawing as Drawing, draw as draw
    from shardbook._findings import Finding as Finding
    from shardbook._layout import (
        LeafLayout as LeafLayout,
        TreeLayout as TreeLayout,
        layout as layout,
    )
    from shardbook._layout_files import LayoutMismatch as LayoutMismatch
    from shardbook._program import (
        BudgetExceeded as BudgetExceeded,
        Memory as Memory,
        Program as Program,
        collectives as collectives,
        program as program,
    )
    from shardbook._raises import raises as raises
    from shardbook.grading.verdict import Verdict as Verdict

    __version__: str

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

if not TYPE_CHECKING:
    # A type checker can't read this list, and would take the function to
    # mean that every name is there.
    __all__ = sorted(_HOMES)

    def __getattr__(name):
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

    def __dir__():
        """List the public names, imported or not."""
        return __all__
