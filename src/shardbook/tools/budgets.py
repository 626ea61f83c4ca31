"""Compare what a program needs with a budget."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shardbook.tools.communication import Collective

_UNITS = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}


class BudgetExceeded(AssertionError):  # noqa: N818
    """A program exceeds a budget of :meth:`Program.expect`."""


def require_known(what: str, names: Any, known: Any) -> None:
    """Require that names are among those that are known."""
    for name in names:
        # In a list, because what can't be hashed is unknown too.
        if name not in [*known]:
            choices = ", ".join(map(repr, known))
            end = (
                f". Known: {choices}"
                if known
                else ": this program has no mesh"
            )
            raise ValueError(f"Unknown {what} {name!r}{end}")


@dataclass(frozen=True)
class Need:
    """What a program needs of something that has a budget.

    Attributes:
        least: What it needs in any case.
        most: What it may need; infinity if data alone says how much.
        unit: What is counted, after a blank, or nothing.
        unsure: The collectives that make the difference.
    """

    least: int
    most: float
    unit: str = ""
    unsure: tuple[Collective, ...] = ()

    @classmethod
    def of(
        cls, amounts: Iterable[tuple[Collective, int, bool]], unit: str = ""
    ) -> "Need":
        """Add up amounts, each with whether it is needed in any case."""
        least, most, unsure = 0, 0.0, []
        for each, amount, is_sure in amounts:
            most += amount if each.bounded else math.inf
            if is_sure:
                least += amount
            else:
                unsure.append(each)
        return cls(least, most, unit, tuple(unsure))

    def against(self, name: str, limit: int) -> str:
        """Compare it with its limit, and say what is not known of it."""
        number = f"{self.least:,}"
        if self.most == math.inf:
            number += " or more"
        elif self.most > self.least:
            number += f" to {self.most:,.0f}"
        text = f"{name}: {number}{self.unit}, expected at most {limit:,}"
        if not self.unsure:
            return text
        why = [f"  {each!r}: {_why(each)}" for each in self.unsure]
        return "\n".join([f"{text}. It depends on:", *why])


def _why(each: Collective) -> str:
    """Say why it is not known what a collective sends."""
    if not each.bounded:
        return "in a loop whose end depends on data"
    if not each.counted:
        return "in a branch that a call may not take"
    if not each.axes:
        return "not over the axes of a mesh that is known"
    return "how much it sends depends on data"


def bytes_of(limit: int | str) -> int:
    """Read a number of bytes."""
    if not isinstance(limit, str):
        return limit
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(\w+)", limit.strip())
    if not found or found[2] not in _UNITS:
        raise ValueError(
            f"Unknown size {limit!r}. Write bytes as a number, or a text "
            f"such as '1.5 MiB', with one of {', '.join(_UNITS)}"
        )
    return int(float(found[1]) * 2 ** _UNITS[found[2]])
