"""Make a mistake on purpose, and fail if it no longer is one."""

import io
import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

# Where the error occurred says nothing to those who read it on a page,
# and in a notebook Flax colours what it quotes.
_NOISE = re.compile(r" This error occurs at source: .*|\x1b\[[0-9;]*m")


@contextmanager
def raises(kind: type[BaseException], match: str) -> Iterator[None]:
    """Print the error that the block raises, and insist that it does.

    What the block itself prints is not shown.

    Args:
        kind: The error that the block must raise. Subclasses count.
        match: A regular expression to be found in the error's message.

    Raises:
        AssertionError: If the block raises nothing, or the message does
            not match. An error of another kind is passed on as it is.
    """
    try:
        # jax 0.12.0 prints the place of some errors on its own.
        with redirect_stdout(io.StringIO()):
            yield
    except kind as error:
        message = _NOISE.sub("", str(error))
        if not re.search(match, message):
            raise AssertionError(
                f"expected a message that matches {match!r}, got: {message}"
            ) from error
        for line in f"{type(error).__name__}: {message}".splitlines():
            print(textwrap.fill(line, 76, break_on_hyphens=False))
    else:
        raise AssertionError(
            f"expected {kind.__name__} matching {match!r}, got no error"
        )
