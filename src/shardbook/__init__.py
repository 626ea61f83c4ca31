"""Show and check how the state of a Flax model is sharded over devices."""

import importlib
import re
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
    from shardbook.grading.verdict import Verdict as Verdict
    from shardbook.reader.check import check as check
    from shardbook.tools.arrays.leaf import LeafLayout as LeafLayout
    from shardbook.tools.compare.difference import (
        Change as Change,
        Difference as Difference,
        LayoutMismatch as LayoutMismatch,
        ProgramMismatch as ProgramMismatch,
    )
    from shardbook.tools.draw.draw import draw as draw
    from shardbook.tools.draw.figure import Drawing as Drawing
    from shardbook.tools.layout.findings import Finding as Finding
    from shardbook.tools.layout.layout import (
        TreeLayout as TreeLayout,
        layout as layout,
    )
    from shardbook.tools.machines.devices import devices_of as devices_of
    from shardbook.tools.machines.machine import (
        Machine as Machine,
        machine as machine,
    )
    from shardbook.tools.peak.constants import Constant as Constant
    from shardbook.tools.peak.peak import (
        Peak as Peak,
        PeakArray as PeakArray,
    )
    from shardbook.tools.processes.processes import processes as processes
    from shardbook.tools.program.arguments import Argument as Argument
    from shardbook.tools.program.budgets import (
        BudgetExceeded as BudgetExceeded,
    )
    from shardbook.tools.program.collective import Collective as Collective
    from shardbook.tools.program.flops import Flops as Flops
    from shardbook.tools.program.memory import Memory as Memory
    from shardbook.tools.program.program import (
        collectives as collectives,
        program as program,
    )
    from shardbook.tools.program.report import Program as Program
    from shardbook.tools.raises import raises as raises

    __version__: str

# Where each public name is. They are imported when they are first used:
# the command line answers before it would have imported jax.
_HOMES = {
    "Argument": "tools.program.arguments",
    "BudgetExceeded": "tools.program.budgets",
    "Change": "tools.compare.difference",
    "Collective": "tools.program.collective",
    "Constant": "tools.peak.constants",
    "Difference": "tools.compare.difference",
    "Drawing": "tools.draw.figure",
    "Finding": "tools.layout.findings",
    "Flops": "tools.program.flops",
    "LayoutMismatch": "tools.compare.difference",
    "LeafLayout": "tools.arrays.leaf",
    "Machine": "tools.machines.machine",
    "Memory": "tools.program.memory",
    "Peak": "tools.peak.peak",
    "PeakArray": "tools.peak.peak",
    "Program": "tools.program.report",
    "ProgramMismatch": "tools.compare.difference",
    "TreeLayout": "tools.layout.layout",
    "Verdict": "grading.verdict",
    "check": "reader.check",
    "collectives": "tools.program.program",
    "devices_of": "tools.machines.devices",
    "draw": "tools.draw.draw",
    "layout": "tools.layout.layout",
    "machine": "tools.machines.machine",
    "processes": "tools.processes.processes",
    "program": "tools.program.program",
    "raises": "tools.raises",
}


def what_to_install(what: str, error: ModuleNotFoundError) -> ImportError:
    """Say what is missing if the package was installed without its needs.

    Args:
        what: What was imported.
        error: Why it can't be.

    Returns:
        An error with the command that installs what is missing, or the
        same error if something else is.
    """
    metadata = importlib.import_module("importlib.metadata")
    needed = [
        re.split(r"[^\w-]", each)[0]
        for each in metadata.requires("shardbook") or ()
        if "extra ==" not in each
    ]
    if error.name not in needed:
        return error
    found = {each.name for each in metadata.distributions()}
    missing = [each for each in needed if each not in found]
    return ImportError(
        f"{what} needs {error.name}, which is not installed; layout, draw, "
        "program and the pytest plugin need jax and numpy alone. To "
        "install what is missing: "
        f"python3 -m pip install {' '.join(missing) or error.name}",
        name=error.name,
    )


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
        try:
            module = importlib.import_module(f"shardbook.{_HOMES[name]}")
        except ModuleNotFoundError as error:
            raise what_to_install(f"shardbook.{name}", error) from None
        return getattr(module, name)

    def __dir__():
        """List the public names, imported or not."""
        return __all__
