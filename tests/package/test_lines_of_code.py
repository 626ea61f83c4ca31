"""The lines of code that "nox -s lint" prints."""

from lines_of_code import lines_of

TEXT = '''"""A module.

It has a docstring.
"""

# And a comment.
WORDS = """One,
two."""  # After code.


def double(x):
    """Double a number."""
    return (
        2

        * x
    )
'''


def test_what_counts_as_code() -> None:
    """Docstrings, comments and blanks do not, and texts do."""
    assert lines_of(TEXT) == 7
