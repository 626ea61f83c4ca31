"""How far a call has come, told by the call to whoever waits for it."""

import contextlib
from collections.abc import Callable
from contextvars import ContextVar


class Progress(str):
    """How far a call has come, in words; never what it returns."""


class Called(Progress):
    """What is called next, as code, for whoever says how the call ended."""


def unheard(progress: str) -> None:
    """Do nothing with how far a call has come."""


# A worker sends it; of several processes, only the first does. A call that
# no worker makes tells no one.
LISTENER: ContextVar[Callable[[Progress], None]] = ContextVar(
    "listener", default=unheard
)


def tell(words: str, kind: type[Progress] = Progress) -> None:
    """Tell how far the call has come that this is a part of.

    Args:
        words: How far that is: ``"case 4 of 11"``.
        kind: What the words are.
    """
    # A call that has closed its files goes on, and its end says so.
    with contextlib.suppress(OSError):
        LISTENER.get()(kind(words))
