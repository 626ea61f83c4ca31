"""See how many slips in solutions and pages something catches.

Each solution is changed in one place: a check or a test must fail. Each
cell that asserts something is changed in one place: the page must fail.
What is not changed must survive. Run it with "nox -s mutation"; it takes
about half an hour.
"""

import argparse
import re
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.resolve()
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "docs" / "_extensions")]

from cells import CELL, executed_pages  # noqa: E402
from mutants import some  # noqa: E402

from shardbook.problems import NAMES  # noqa: E402
from shardbook.warm import Warm  # noqa: E402

BLOCK = re.compile(
    rf"{CELL.pattern}"
    r"|^:::\{predict\}.*?\n(?P<choices>(?:- \[[^\n]*\n)+)",
    CELL.flags,
)
PAGES = executed_pages(ROOT / "docs")
# The least share that must be caught.
ENOUGH = 0.98
# Why a mutant survives that is no mistake.
EXPLAINED = HERE / "survivors.toml"


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """Read the cells of a page, and the choices of its predictions."""
    return [
        (found["code"] or "", found["choices"] or "")
        for found in BLOCK.finditer(page.read_text("utf-8"))
    ]


def pages(share: float) -> Iterator[tuple[str, str, list[Any]]]:
    """Give the mutants of each page: a name, the change, the job."""
    for page in PAGES:
        blocks = blocks_of(page)
        for number, (code, _) in enumerate(blocks):
            if "assert" not in code and "raises(" not in code:
                continue
            for mutant in some(code, share):
                mutated = [*blocks]
                mutated[number] = (mutant.source, "")
                first = code.splitlines()[mutant.line - 1].strip()
                what = f"{page.name}: {first}: {mutant.change}"
                yield page.name, what, [str(page.parent), mutated]


def solutions(folder: Path) -> Iterator[tuple[str, str, list[Any]]]:
    """Give all mutants of the solutions, each in a file."""
    for name in NAMES:
        path = ROOT / "src/shardbook/problems" / f"{name}.py"
        code = path.read_text("utf-8")
        for number, mutant in enumerate(some(code, 1.0)):
            target = folder / f"{name}_{number}.py"
            target.write_text(mutant.source)
            first = code.splitlines()[mutant.line - 1].strip()
            what = f"{name}.py: {first}: {mutant.change}"
            yield name, what, [name, str(target)]


def survivors(
    warm: Warm, target: str, found: list[tuple[str, str, list[Any]]]
) -> list[tuple[str, str, list[Any]]]:
    """Run mutants, and give those that nothing caught."""
    jobs = [job for _, _, job in found]
    alive = []
    outcomes = warm.run(f"jobs:{target}", jobs, seconds=120)
    for count, (number, outcome) in enumerate(outcomes, 1):
        print(
            f"\r{target}: {count} of {len(jobs)}", end="", file=sys.stderr
        )
        # A mutant that hangs, or dies, is caught too.
        if outcome.ending == "returned" and not outcome.value:
            alive.append(found[number])
    print(file=sys.stderr)
    return alive


def main() -> None:
    """Print who survived, and the share that was caught."""
    parser = argparse.ArgumentParser(prog="nox -s mutation --")
    parser.add_argument(
        "--share",
        type=float,
        default=1.0,
        help="how many of the mutants of the pages to try (%(default)s)",
    )
    parser.add_argument("--only", default="", help="a part of the names")
    options = parser.parse_args()
    explained = tomllib.loads(EXPLAINED.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder, Warm("pytest") as warm:
        wrong = [m for m in solutions(Path(folder)) if options.only in m[1]]
        on_pages = [m for m in pages(options.share) if options.only in m[1]]
        same = [
            (page.name, page.name, [str(page.parent), blocks_of(page)])
            for page in PAGES
        ]
        files = [
            (name, name, [name, f"{ROOT}/src/shardbook/problems/{name}.py"])
            for name in NAMES
        ]
        for target, jobs in (
            ("page", same),
            ("check", files),
            ("test", files),
        ):
            if len(survivors(warm, target, jobs)) != len(jobs):
                sys.exit("What was not changed failed too.")
        alive = survivors(warm, "check", wrong)
        alive = survivors(warm, "test", alive)
        alive += survivors(warm, "page", on_pages)
    tried = Counter(what.split(": ")[0] for _, what, _ in wrong + on_pages)
    left = Counter(what.split(": ")[0] for _, what, _ in alive)
    for name, count in tried.items():
        print(f"{name:32} {count - left[name]:>5} of {count:>5} caught")
    open_ = [what for _, what, _ in alive if what not in explained]
    for _, what, _ in alive:
        print(
            f"survived: {what}\n    {explained.get(what, 'not explained')}"
        )
    caught = 1 - len(alive) / max(1, tried.total())
    print(f"{caught:.1%} of {tried.total()} caught.")
    sys.exit(caught < ENOUGH or bool(open_))


if __name__ == "__main__":
    main()
