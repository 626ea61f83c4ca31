"""Write the files of a new problem, each with what to write in it.

Run it with "nox -s new -- NAME". "nox -s problem -- NAME" then says what to
write next.
"""

import argparse
import keyword
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAP = ROOT / "src/shardbook/problems/__init__.py"
PAGE = Path(__file__).with_suffix(".md")
# In the templates, words in capitals are what the writer replaces.
SOLUTION = '''\
"""SAY IN A LINE WHAT IT DOES."""

import jax
from jax.sharding import Mesh


def NAME(x: jax.Array, mesh: Mesh) -> jax.Array:
    """Return WHAT, AS WHICH SHARDED ARRAY.

    Args:
        x: Input, float32 ``(batch, in_dim)``, ON WHICH DEVICES.
        mesh: Mesh with Auto axes ``"data"`` and ``"model"``.

    References:
        AUTHOR, *TITLE*, YEAR, SECTION, ADDRESS
    """
    # --- solution ---
    raise NotImplementedError("write src/shardbook/problems/NAME.py")
'''
CHECK = '''\
"""What a right ``NAME`` must show."""

from shardgrade.grading import measures, same

# A call as code, with the names of shardbook.inputs, for some meshes of all
# devices: on two these are 1 by 2 and 2 by 1.
CASES = same.on_meshes("NAME(normal(8, 4), {mesh})")
EXAMPLE = CASES[0].call
# By name: what must agree with the solution, what it means if it does not,
# and the heading of the page to read then. Others: same.placement with
# measures.shards, same.communication with measures.collectives.
CHECKS = {
    "types": same.types(CASES),
    "result": same.values(
        CASES, measures.result, "SAY WHAT IT MEANS", read="HEADING"
    ),
}
# What to read when an attempt raises: words of the error, a heading.
ERRORS = (("words of the error", "HEADING"),)

raise NotImplementedError(
    "write src/shardgrade/checks/NAME.py, then remove its last lines"
)
'''
EDITS = """\
# tests/attempts/README.md says what an entry means. Write at least:
# [wrong.result.ATTEMPT]
# why = "SAY WHAT THE READER DID."
# edits = [["TEXT OF THE SOLUTION, FOUND ONCE", "WHAT THE READER WROTE"]]
# [wrong.ANOTHER_CHECK.ATTEMPT]
# [right.ATTEMPT]
"""
# In the order in which they are written.
FILES = {
    "src/shardbook/problems/NAME.py": SOLUTION,
    "src/shardgrade/checks/NAME.py": CHECK,
    "tests/attempts/NAME/edits.toml": EDITS,
    "docs/problems/NAME.md": PAGE.read_text("utf-8"),
}


def named(text: str, name: str) -> str:
    """Put the name of the problem where NAME stands as a word."""
    return re.sub(r"(?<![A-Za-z])NAME(?![A-Za-z])", name, text)


def main() -> None:
    """Write the files, and add the problem to the end of the map."""
    parser = argparse.ArgumentParser(prog="nox -s new --")
    parser.add_argument("name", help="the function that readers write")
    name = parser.parse_args().name
    if not name.isidentifier() or keyword.iskeyword(name):
        sys.exit(
            f"{name!r} can't be the name of a function: give one such as "
            "'column_parallel'"
        )
    paths = {ROOT / named(path, name): path for path in FILES}
    if present := [str(path) for path in paths if path.exists()]:
        sys.exit(f"nothing written: {', '.join(present)} is there already")
    for path, template in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(named(FILES[template], name), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    last = "    ),\n}\n"
    head, end = MAP.read_text("utf-8").rsplit(last, 1)
    line = f'        "{name}",\n'
    MAP.write_text(f"{head}{line}{last}{end}", encoding="utf-8")
    print(f"added {name} to the end of {MAP.relative_to(ROOT)}")
    print(f"Next: nox -s problem -- {name}")


if __name__ == "__main__":
    main()
