"""See, and check, how the state of a Flax model is spread over devices."""

from shardbook.communication import collectives
from shardbook.drawing import Drawing, draw
from shardbook.pitfalls import raises
from shardbook.reporting import LeafLayout, TreeLayout, layout

__all__ = [
    "Drawing",
    "LeafLayout",
    "TreeLayout",
    "collectives",
    "draw",
    "layout",
    "raises",
]
