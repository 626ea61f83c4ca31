"""Grade attempts at the book's problems, and show readers the verdicts."""

from typing import TYPE_CHECKING

from shardscope.lazy import importer

# As in shardscope.
if TYPE_CHECKING:
    from shardgrade.grading.verdict import Verdict as Verdict
    from shardgrade.reader.check import check as check

if not TYPE_CHECKING:
    __all__, __getattr__ = importer(__name__, __file__)

    def __dir__():
        """List the public names, imported or not."""
        return __all__
