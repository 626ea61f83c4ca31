r"""Find messages in what a reader pastes: a line, a traceback or a log.

``docs/_static/messages.js`` has the same rule for the site, and
``tests/messages.toml`` has what both are tested with:

1. What a terminal or a logger adds is taken off: escape sequences, ``\n``
   spelled out, and what all lines begin with, but for their digits.
2. The text is cut where it names an exception or a warning, as in
   "ValueError: ", and each piece ends where a traceback begins: the lines
   of code there may have any words.
3. A piece has a message if it has its letters, in lower case and in their
   order, whatever is between them: a terminal breaks lines, and a reader's
   names and numbers vary.
4. Of several messages in a piece the longest counts, because it says most,
   and then the first. The last piece comes first.
5. Where no piece has a message, a part of one that comes after ": " and
   has several words counts as a message.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from os.path import commonprefix

ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
NAMED = re.compile(r"(?:^|[^\w.])[\w.]*(?:Error|Exception|Warning): ")


def _letters(text: str) -> str:
    return re.sub("[^a-z]", "", text.lower())


def cleaned(text: str) -> Iterator[str]:
    """Take off what all lines begin with; then again, leave it on.

    It may be the message itself, which each line repeats.
    """
    text = ESCAPE.sub("", text).replace("\\n", "\n")
    lines = text.splitlines()
    zeros = [re.sub(r"\d", "0", line) for line in lines if line.strip()]
    start = commonprefix(zeros)  # noqa: RUF071 - of characters, as meant
    size = len(re.sub("[A-Za-z]*$", "", start))
    yield "\n".join(line[size:] for line in lines)
    yield text


def found(text: str, messages: Sequence[Iterable[str]]) -> dict[int, str]:
    """Find what explains a text, by the rule of this module.

    Args:
        text: What was pasted.
        messages: What never varies of the messages that each explains.

    Returns:
        The place in ``messages`` of what was found, best first, with the
            text before it, where its traceback is, or else all of it.
    """
    words = [(each, i) for i, row in enumerate(messages) for each in row]
    parts = [(part, i) for each, i in words for part in _parts(each)]
    pieces = [each for clean in cleaned(text) for each in _pieces(clean)]
    for kind in (words, parts):
        rows = [(_letters(each), i) for each, i in kind]
        places: dict[int, str] = {}
        for piece, clean, start in pieces:
            have = [(-len(each), i) for each, i in rows if each in piece]
            if have and (place := min(have)[1]) not in places:
                places[place] = clean[:start] or clean
        if places:
            return places
    return {}


def _parts(message: str) -> list[str]:
    return [part for part in message.split(": ")[1:] if " " in part]


def _pieces(text: str) -> Iterator[tuple[str, str, int]]:
    """Cut a text at its exceptions; give letters, the text and a start."""
    end = None
    for start in [0, *(m.end() for m in NAMED.finditer(text))][::-1]:
        # Code that nothing follows is all that was pasted.
        code = "Traceback (most" if end else "\0"
        yield _letters(text[start:end].partition(code)[0]), text, start
        end = start
