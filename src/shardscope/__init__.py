"""Show how arrays are sharded, and what programs send, in anyone's code."""

from typing import TYPE_CHECKING

from shardscope.lazy import importer

# The public names as type checkers find them; a test compares them with
# those that Python finds, below.
if TYPE_CHECKING:
    from shardscope.arrays.finding import Finding as Finding
    from shardscope.arrays.leaf import LeafLayout as LeafLayout
    from shardscope.cluster.processes import processes as processes
    from shardscope.compare.difference import (
        Change as Change,
        Difference as Difference,
        LayoutMismatch as LayoutMismatch,
        ProgramMismatch as ProgramMismatch,
    )
    from shardscope.drawings.draw import draw as draw
    from shardscope.drawings.figure import Drawing as Drawing
    from shardscope.layouts.layout import (
        TreeLayout as TreeLayout,
        layout as layout,
    )
    from shardscope.machines.devices import devices_of as devices_of
    from shardscope.machines.machine import (
        Machine as Machine,
        machine as machine,
    )
    from shardscope.peak.constants import Constant as Constant
    from shardscope.peak.peak import (
        Peak as Peak,
        PeakArray as PeakArray,
    )
    from shardscope.programs.arguments import Argument as Argument
    from shardscope.programs.budgets import (
        BudgetExceeded as BudgetExceeded,
    )
    from shardscope.programs.collective import Collective as Collective
    from shardscope.programs.flops import Flops as Flops
    from shardscope.programs.memory import Memory as Memory
    from shardscope.programs.program import (
        collectives as collectives,
        program as program,
    )
    from shardscope.programs.report import Program as Program
    from shardscope.programs.why import Why as Why, why as why
    from shardscope.propagation.lost import LostAxis as LostAxis
    from shardscope.propagation.values import (
        ShardedValue as ShardedValue,
    )

# Where each public name is.
_HOMES = {
    "Argument": "programs.arguments",
    "BudgetExceeded": "programs.budgets",
    "Change": "compare.difference",
    "Collective": "programs.collective",
    "Constant": "peak.constants",
    "Difference": "compare.difference",
    "Drawing": "drawings.figure",
    "Finding": "arrays.finding",
    "Flops": "programs.flops",
    "LayoutMismatch": "compare.difference",
    "LostAxis": "propagation.lost",
    "LeafLayout": "arrays.leaf",
    "Machine": "machines.machine",
    "Memory": "programs.memory",
    "Peak": "peak.peak",
    "PeakArray": "peak.peak",
    "Program": "programs.report",
    "ProgramMismatch": "compare.difference",
    "ShardedValue": "propagation.values",
    "TreeLayout": "layouts.layout",
    "Why": "programs.why",
    "collectives": "programs.program",
    "devices_of": "machines.devices",
    "draw": "drawings.draw",
    "layout": "layouts.layout",
    "machine": "machines.machine",
    "processes": "cluster.processes",
    "program": "programs.program",
    "why": "programs.why",
}

if not TYPE_CHECKING:
    # A type checker can't read this list, and would take the function to
    # mean that every name is there.
    __all__ = sorted(_HOMES)
    __getattr__ = importer(__name__, _HOMES)

    def __dir__():
        """List the public names, imported or not."""
        return __all__
