"""What looks wrong with some arrays, in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from shardscope.tables import size

# How many arrays a finding names; of more, it says what is common to them.
_NAMED = 3


@dataclass(frozen=True)
class Finding:
    """Something that looks wrong, for one array or for many.

    Attributes:
        rule: The name of the rule that found it.
        paths: The arrays, those with the most bytes first. Repeated
            layers share one path, such as ``"layers.*.kernel"``.
        arrays: How many arrays these are.
        bytes: What is at stake, for all arrays together.
        why: What looks wrong, in words.
        stake: What the bytes are, in words: ``"lost on each"`` device,
            which is the difference from the layout that was expected, or
            ``"held on each"``.
    """

    rule: str
    paths: tuple[str, ...]
    arrays: int
    bytes: int
    why: str
    stake: str

    @property
    def path(self) -> str:
        """The path, or what the paths have in common around a ``*``.

        If you pass it to ``select``, it may match other arrays too.
        """
        first, *others = (path.split(".") for path in self.paths)
        start = _common([first, *others])
        end = _common([names[start:][::-1] for names in (first, *others)])
        if not others:
            return ".".join(first)
        return ".".join([*first[:start], "*", *first[len(first) - end :]])

    def __str__(self) -> str:
        where = ", ".join(filter(None, self.paths)) or "the array"
        if len(self.paths) > _NAMED:
            where = f"{self.arrays} arrays at {self.path}"
            if self.path == "*":
                rest = len(self.paths) - 2
                where = f"{', '.join(self.paths[:2])} and {rest} others"
        text = f"{where}: {self.why}"
        if not self.bytes:
            return text
        return f"{text} ({size(self.bytes)} {self.stake})"


def _common(names: Sequence[Sequence[str]]) -> int:
    """Count the names that all begin with."""
    columns = enumerate(zip(*names, strict=False))
    return next(
        (at for at, column in columns if len(set(column)) > 1),
        min(map(len, names)),
    )
