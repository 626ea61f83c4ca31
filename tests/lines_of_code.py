"""Count the lines of code of each room: "nox -s lint" prints them.

Docstrings, comments and blanks are not counted, so that nobody saves on
them.
"""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SILENT = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def lines_of(text: str) -> int:
    """Count the lines that have code."""
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in SILENT
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        # A docstring, or another text that nothing uses.
        if isinstance(node, ast.Expr) and isinstance(
            node.value, ast.Constant
        ):
            code -= {*range(node.lineno, (node.end_lineno or 0) + 1)}
    return len(code)


def main() -> None:
    """Print a line for each room."""
    rooms: Counter[str] = Counter()
    for pattern, depth in (("src/**/*.py", 3), ("tests/**/*.py", 2)):
        for path in sorted(ROOT.glob(pattern)):
            place = path.relative_to(ROOT).parts
            room = "/".join(place[: min(depth, len(place) - 1)])
            rooms[room] += lines_of(path.read_text("utf-8"))
    print("lines of code")
    for room, count in sorted(rooms.items()):
        print(f"{count:6,}  {room}")


if __name__ == "__main__":
    main()
