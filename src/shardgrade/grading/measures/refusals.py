"""How a call is refused: the error that it raises."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout

from shardgrade.grading.attempt import Crashed
from shardgrade.grading.cases import Seen
from shardgrade.grading.differences import is_array, leaves, show
from shardgrade.grading.measures.results import types


@contextmanager
def note_errors() -> Iterator[list[BaseException]]:
    """Take the error that a call raises for its answer."""
    raised: list[BaseException] = []
    try:
        # jax 0.12.0 prints the place of some errors on its own. In a file,
        # for an attempt can ask for what only a file has, such as a buffer.
        with (
            open(os.devnull, "w", encoding="utf-8") as nowhere,
            redirect_stdout(nowhere),
        ):
            yield raised
    except Crashed as crash:
        if crash.error is None:
            raise
        raised.append(crash.error)


def refusal(
    *words: str,
    kind: type[Exception] = ValueError,
    never: Iterable[str] = (),
) -> Callable[[Seen], str]:
    """Give the function that describes how a call is refused.

    Args:
        *words: What the message must name.
        kind: The class that the error must have.
        never: What it must not name.

    Returns:
        A function of a call that was made under :func:`note_errors`.
    """
    none_of = tuple(never)

    def describe(seen: Seen) -> str:
        if not seen.noted:
            arrays = any(map(is_array, leaves(seen.result).values()))
            got = types(seen) if arrays else show(seen.result)
            return f"no error, but {', '.join(got.splitlines())}"
        (error,) = seen.noted
        text = str(error)
        named = all(re.search(_whole(word), text) for word in words)
        right = isinstance(error, kind) and named
        if right and not any(w in text for w in none_of):
            which = f" that names {', '.join(words)}" if words else ""
            if none_of:
                which += f", and not {', '.join(none_of)}"
            article = "an" if kind.__name__[0] in "AEIO" else "a"
            return f"{article} {kind.__name__}{which}"
        return f"{type(error).__name__}: {error}"

    return describe


def _whole(word: str) -> str:
    """Give the pattern of a word; of a number, not as a part of another."""
    edge = r"\d" if word.isdigit() else "(?!)"
    return f"(?<!{edge}){re.escape(word)}(?!{edge})"
