"""Grade attempts at the book's problems, and show readers the verdicts."""

from typing import TYPE_CHECKING

from shardscope.lazy import importer

# As in shardscope.
if TYPE_CHECKING:
    from shardgrade.grading.verdict import Verdict as Verdict
    from shardgrade.reader.check import check as check

_HOMES = {"Verdict": "grading.verdict", "check": "reader.check"}

if not TYPE_CHECKING:
    __all__ = sorted(_HOMES)
    __getattr__ = importer(__name__, _HOMES)

    def __dir__():
        """List the public names, imported or not."""
        return __all__
