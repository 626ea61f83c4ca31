"""Show the error of a mistake made on purpose, and require it."""

import io
import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from shutil import get_terminal_size

# A file name and a line say nothing to those who read the error on a page,
# and in a notebook Flax colors what it quotes.
_NOISE = re.compile(r" This error occurs at source: .*|\x1b\[[0-9;]*m")


@contextmanager
def raises(kind: type[BaseException], match: str) -> Iterator[None]:
    """Require that the block raises an error, and print the error.

    The message is printed in lines that fit the terminal, or 76 columns
    without one. Anything that the block itself prints is hidden.

    Args:
        kind: The error that the block must raise. Subclasses count.
        match: A regular expression that occurs in the error's message.

    Returns:
        A context manager, for the ``with`` statement of the block.

    Raises:
        AssertionError: If the block raises nothing, or the message does
            not match. Errors of other kinds pass through.

    Example:
        >>> import jax
        >>> from shardbook import raises
        >>> with raises(TypeError, "incompatible shapes"):
        ...     jax.numpy.ones(2) + jax.numpy.ones(3)
        TypeError: add got incompatible shapes for broadcasting: (2,), (3,).
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
        width = get_terminal_size((76, 0)).columns
        for line in f"{type(error).__name__}: {message}".splitlines():
            print(textwrap.fill(line, width, break_on_hyphens=False))
    else:
        raise AssertionError(
            f"expected {kind.__name__} matching {match!r}, got no error"
        )
