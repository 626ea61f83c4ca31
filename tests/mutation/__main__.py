"""See how many slips in solutions, pages and the package something catches.

Each solution is changed in one place: a check or a test must fail. Each
cell that asserts something is changed in one place: the page must fail.
What is not changed must pass. Run it with "nox -s mutation"; it takes about
half an hour.

With "-- --package", modules of the package are changed, each in a sample of
places, and what no test catches is for a person to look at.
"""

import argparse
import re
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.resolve()
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from mutants import some  # noqa: E402

from shardbook.grading.sandbox import Sandbox  # noqa: E402
from shardbook.problems import NAMES  # noqa: E402
from shardbook_site.cells import CELL, executed_pages  # noqa: E402

BLOCK = re.compile(
    rf"{CELL.pattern}"
    r"|^:::\{predict\}.*?\n(?P<choices>(?:- \[[^\n]*\n)+)",
    CELL.flags,
)
SOURCE = ROOT / "src" / "shardbook"
PACKAGE = (
    "_collectives.py",
    "_draw.py",
    "_layout.py",
    "_program.py",
    "_raises.py",
    "grading/agreement.py",
    "grading/cases.py",
    "grading/measures.py",
    "inputs.py",
)
# The least share of all that must be caught.
ENOUGH = 0.98
# Why a mutant survives that is no mistake.
EXPLAINED = HERE / "survivors.toml"


@dataclass(frozen=True)
class Trial:
    """Something to try, changed or not.

    Attributes:
        file: The name of the file.
        change: What was changed in it, and where.
        arguments: What the job takes.
    """

    file: str
    change: str
    arguments: list[Any]

    def __str__(self) -> str:
        """Name the file and the change."""
        return f"{self.file}: {self.change}" if self.change else self.file


def mutated(code: str, share: float) -> Iterator[tuple[str, str]]:
    """Give mutants of a program: what was changed, and the program."""
    for mutant in some(code, share):
        line = code.splitlines()[mutant.line - 1].strip()
        yield f"{line}: {mutant.change}", mutant.source


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """Read the cells of a page, and the choices of its predictions."""
    return [
        (found["code"] or "", found["choices"] or "")
        for found in BLOCK.finditer(page.read_text("utf-8"))
    ]


def pages(share: float) -> Iterator[Trial]:
    """Give each page as it is, and mutants of it."""
    for page in executed_pages(ROOT / "docs"):
        blocks = blocks_of(page)
        folder = str(page.parent)
        yield Trial(page.name, "", [folder, blocks])
        for number, (code, _) in enumerate(blocks):
            if "assert" not in code and "raises(" not in code:
                continue
            for change, source in mutated(code, share):
                others = [*blocks]
                others[number] = (source, "")
                yield Trial(page.name, change, [folder, others])


def solutions(folder: Path) -> Iterator[Trial]:
    """Give each solution as it is, and all its mutants, each in a file."""
    for name in NAMES:
        path = SOURCE / "problems" / f"{name}.py"
        code = path.read_text("utf-8")
        yield Trial(path.name, "", [name, str(path)])
        for number, (change, source) in enumerate(mutated(code, 1.0)):
            target = folder / f"{name}_{number}.py"
            target.write_text(source)
            yield Trial(path.name, change, [name, str(target)])


def package(share: float) -> Iterator[Trial]:
    """Give modules of the package as they are, and mutants of them."""
    for file in PACKAGE:
        code = (SOURCE / file).read_text("utf-8")
        yield Trial(file, "", [file, code])
        for change, source in mutated(code, share):
            yield Trial(file, change, [file, source])


def survivors(
    sandbox: Sandbox, target: str, trials: list[Trial]
) -> list[Trial]:
    """Run changed programs, and give those that nothing caught."""
    alive = []
    outcomes = sandbox.map(
        f"jobs:{target}",
        [trial.arguments for trial in trials],
        seconds=300,
    )
    for count, outcome in enumerate(outcomes, 1):
        print(
            f"\r{target}: {count} of {len(trials)}",
            end="",
            file=sys.stderr,
        )
        # A mutant that hangs, or dies, is caught too.
        if outcome.ending == "returned" and not outcome.value:
            alive.append(trials[count - 1])
    print(file=sys.stderr)
    return alive


def require_passing(
    sandbox: Sandbox, target: str, trials: list[Trial]
) -> None:
    """Run unchanged programs; say which of them failed, and why."""
    arguments = [trial.arguments for trial in trials]
    outcomes = sandbox.map(f"jobs:{target}", arguments, seconds=600)
    failed = [
        f"{trial} fails as it is ({target}): "
        f"{outcome.value or outcome.ending}\n{outcome.output}"
        for trial, outcome in zip(trials, outcomes, strict=True)
        if outcome.ending != "returned" or outcome.value
    ]
    if failed:
        sys.exit("\n".join(failed))


def try_all(
    sandbox: Sandbox, targets: Iterable[str], trials: list[Trial]
) -> list[Trial]:
    """Try each mutant until something catches it; give the others."""
    same = [trial for trial in trials if not trial.change]
    alive = [trial for trial in trials if trial.change]
    for target in targets:
        require_passing(sandbox, target, same)
        alive = survivors(sandbox, target, alive)
    return alive


def main() -> None:
    """Print who survived, and the share that was caught."""
    parser = argparse.ArgumentParser(prog="nox -s mutation --")
    parser.add_argument(
        "--package",
        action="store_true",
        help="change the package, in the place of solutions and pages",
    )
    parser.add_argument(
        "--share",
        type=float,
        help="how many of the mutants of pages (default: 1.0) or of the "
        "package (default: 0.1) to try",
    )
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="a part of file: change"
    )
    options = parser.parse_args()

    def chosen(trials: Iterable[Trial]) -> list[Trial]:
        found = [*trials]
        files = {
            t.file for t in found if t.change and options.only in str(t)
        }
        return [
            trial
            for trial in found
            if trial.file in files
            and (not trial.change or options.only in str(trial))
        ]

    with (
        tempfile.TemporaryDirectory() as folder,
        Sandbox("pytest") as sandbox,
    ):
        if options.package:
            groups = {("package",): chosen(package(options.share or 0.1))}
        else:
            groups = {
                ("check", "test"): chosen(solutions(Path(folder))),
                ("page",): chosen(pages(options.share or 1.0)),
            }
        alive = [
            trial
            for targets, trials in groups.items()
            for trial in try_all(sandbox, targets, trials)
        ]
    explained = tomllib.loads(EXPLAINED.read_text("utf-8"))
    tried = Counter(
        trial.file
        for trials in groups.values()
        for trial in trials
        if trial.change
    )
    left = Counter(trial.file for trial in alive)
    for name, count in tried.items():
        print(f"{name:32} {count - left[name]:>5} of {count:>5} caught")
    for trial in alive:
        why = explained.get(str(trial), "not explained")
        print(f"survived: {trial}\n    {why}")
    caught = 1 - len(alive) / max(1, tried.total())
    print(f"{caught:.1%} of {tried.total()} caught.")
    unexplained = any(str(trial) not in explained for trial in alive)
    # Of a few, those that are explained may be many.
    too_few = caught < ENOUGH and not options.only and not options.share
    sys.exit(not options.package and (unexplained or too_few))


if __name__ == "__main__":
    main()
