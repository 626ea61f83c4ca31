"""When what came of an attempt agrees with what came of the solution."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax
import numpy as np

from shardgrade.grading.differences import difference

# The words of what is counted most.
SENT, HELD = "bytes that a device sends", "bytes of memory on a device"
FLOPS = "FLOPs of matrix products on a device"


@dataclass(frozen=True)
class AtMost:
    """Let a number be up to so many times the solution's.

    Attributes:
        times: How many times.
        unit: What is counted, as in ``"bytes of memory on a device"``.
        more: How much it may be above that.
        budget: Whether the words say by how much it is above the limit.
    """

    times: float
    unit: str
    _: KW_ONLY
    more: int = 0
    budget: bool = False

    def __call__(self, got: float, expected: float) -> bool:
        """Tell whether a number is within the limit."""
        return got <= self.times * expected + self.more

    def words(self, got: float, expected: float) -> tuple[str, str]:
        """Write what was counted, and the limit."""
        limit = int(self.times * expected + self.more)
        found, most = Limited(got, limit, self.unit).words()
        if self.budget:
            found += f", {int(got) - limit:,} over the budget"
        return found, most


class AtLeast(AtMost):
    """Let a number be down to so many times the solution's."""

    def __call__(self, got: float, expected: float) -> bool:
        """Tell whether a number is within the limit."""
        return got >= self.times * expected - self.more

    def words(self, got: float, expected: float) -> tuple[str, str]:
        """Write what was counted, and the limit."""
        limit = math.ceil(self.times * expected - self.more)
        return f"{got:,} {self.unit}", f"at least {limit:,} {self.unit}"


@dataclass(frozen=True)
class Near:
    """Let the numbers of each array be off by a part of its largest one.

    Attributes:
        parts: The part for each array of a tree, the last for all others.
        of_each: Whether the part is one of each number instead.
    """

    parts: Sequence[float]
    _: KW_ONLY
    of_each: bool = False

    def __call__(self, got: Any, expected: Any) -> bool:
        """Tell whether two trees of arrays agree."""
        pairs = zip(*map(jax.tree.leaves, (got, expected)), strict=True)
        return all(
            (self.over(found, wanted, number) <= 0).all()
            for number, (found, wanted) in enumerate(pairs)
        )

    def over(self, found: Any, wanted: Any, number: int) -> Any:
        """Give by how much each number of an array is over its limit."""
        found, wanted = np.float32(found), np.float32(wanted)
        part = self.parts[min(number, len(self.parts) - 1)]
        size = np.abs(wanted)
        limit = part * (size if self.of_each else size.max())
        return np.abs(found - wanted) - limit

    def words(self, got: Any, expected: Any) -> tuple[str, str]:
        """Write the number that is the farthest over its limit."""
        return difference(got, expected, self.over)


def within(found: str, wanted: str) -> bool:
    """Tell whether each line of a text is one of another text too."""
    return set(found.splitlines()) <= set(wanted.splitlines())


@dataclass(frozen=True)
class Limited:
    """A number with a limit that the page gives.

    Attributes:
        count: The number.
        limit: The most that it may be.
        unit: What is counted, as in ``"bytes that a device sends"``.
    """

    count: float
    limit: int
    unit: str

    @property
    def exceeded(self) -> bool:
        """Whether the number is above the limit."""
        return self.count > self.limit

    def words(self) -> tuple[str, str]:
        """Write the number, and the limit."""
        return (
            f"{self.count:,} {self.unit}",
            f"at most {self.limit:,} {self.unit}",
        )
