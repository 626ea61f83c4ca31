"""Compare what a program needs with a budget."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardscope.programs.collective import KINDS, Collective, is_over
from shardscope.programs.known import require_known

if TYPE_CHECKING:
    from shardscope.programs.report import Program

_UNITS = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}


class BudgetExceeded(AssertionError):  # noqa: N818
    """A program exceeds a budget of :meth:`Program.within`."""


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


def require_within(
    program: "Program",
    collectives: Mapping[str, int] | None,
    sent: Mapping[str | tuple[str, ...], int | str] | None,
    memory: int | str | None,
    transfers: int | str | None,
) -> None:
    """Require that a program needs no more than ``Program.within`` says."""
    needs = [
        *_of_collectives(program, collectives),
        *_of_sent(program, sent or {}),
    ]
    undecided: list[str] = []
    if memory is not None:
        need = Need(program.memory.total, program.memory.total, " bytes")
        needs.append(("memory", need, bytes_of(memory)))
    if transfers is not None and program.transfers is not None:
        moved = sum(program.transfers.values())
        need = Need(moved, moved, " bytes")
        needs.append(("transfers", need, bytes_of(transfers)))
    elif transfers is not None:
        undecided.append(
            "the transfers of this program are unknown. Pass program() a "
            "function and its arguments: Modules, not the states that they "
            "were split into"
        )
    over = []
    for name, need, limit in needs:
        if need.least > limit:
            over.append(need.against(name, limit))
        elif need.most > limit:
            undecided.append(need.against(name, limit))
    if over:
        raise BudgetExceeded(
            "\n".join([*over, *undecided, "", f"{program!r}"])
        )
    if undecided:
        raise ValueError("\n".join(undecided))


def _of_collectives(
    program: "Program", limits: Mapping[str, int] | None
) -> Iterable[tuple[str, Need, int]]:
    """Give each kind with how often it runs, and how often it may."""
    if limits is None:
        return
    require_known("collective", limits, KINDS)
    for kind in program.collectives:
        need = Need.of(
            (each, each.times, each.counted)
            for each in program.communication
            if each.kind == kind
        )
        yield kind, need, limits.get(kind, 0)


def _of_sent(
    program: "Program",
    limits: Mapping[str | tuple[str, ...], int | str],
) -> Iterable[tuple[str, Need, int]]:
    """Give each mesh axis with what is sent over it, and what may be."""
    for key, limit in limits.items():
        names = (key,) if isinstance(key, str) else key
        require_known("mesh axis", names, program.axes)
        amounts = (
            (each, each.sent * each.times, each.exact and each.axes != ())
            for each in program.communication
            # Where no mesh fits, it may be over any axis.
            if is_over(each, names) or not each.axes
        )
        need = Need.of(amounts, " bytes")
        yield f"sent over {' and '.join(names)}", need, bytes_of(limit)
