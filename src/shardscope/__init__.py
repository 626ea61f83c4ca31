"""Show how arrays are sharded, and what programs send, in anyone's code."""

from typing import TYPE_CHECKING

from shardscope.lazy import importer

# The public names as type checkers find them, and Python, below.
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

if not TYPE_CHECKING:
    # A type checker can't read this list, and would take the function to
    # mean that every name is there.
    __all__, __getattr__ = importer(__name__, __file__)

    def __dir__():
        """List the public names, imported or not."""
        return __all__
