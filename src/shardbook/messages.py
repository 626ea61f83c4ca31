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
TRACEBACK = "Traceback (most"


def _letters(text: str) -> str:
    return re.sub("[^a-z]", "", text.lower())


def cleaned(text: str) -> Iterator[str]:
    """Take off what all lines begin with; then again, leave it on.

    It may be the message itself, which each line repeats.
    """
    text = ESCAPE.sub("", text).replace("\\n", "\n")
    lines = text.splitlines()
    start = commonprefix(  # noqa: RUF071 - of characters, as meant
        [re.sub(r"\d", "0", line) for line in lines if line.strip()]
    )
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
    parts = [
        [
            part
            for words in each
            for part in words.split(": ")[1:]
            if " " in part
        ]
        for each in messages
    ]
    pieces = [
        (_letters(piece), clean[:start] or clean)
        for clean in cleaned(text)
        for piece, start in _pieces(clean)
    ]
    for kind in (messages, parts):
        table = [
            (_letters(w), i) for i, each in enumerate(kind) for w in each
        ]
        table.sort(key=lambda row: -len(row[0]))
        places: dict[int, str] = {}
        for letters, before in pieces:
            place = next((i for w, i in table if w in letters), None)
            if place is not None:
                places.setdefault(place, before)
        if places:
            return places
    return {}


def _pieces(text: str) -> Iterator[tuple[str, int]]:
    """Cut a text at its exceptions; give each piece and its start."""
    end = None
    for start in [0, *(m.end() for m in NAMED.finditer(text))][::-1]:
        piece = text[start:end]
        # Code that nothing follows is all that was pasted.
        yield piece.partition(TRACEBACK)[0] if end else piece, start
        end = start
