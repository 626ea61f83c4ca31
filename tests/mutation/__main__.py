"""See how many slips in solutions, pages and the package something catches.

Each solution is changed in each place, one at a time: a check or a test
must fail. Each cell that asserts something is changed in one place: the
page must fail. What is not changed must pass. Run it with "nox -s
mutation"; it takes about half an hour.

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
from shardbook_site.cells import CELL, pages_that_run  # noqa: E402

BLOCK = re.compile(
    rf"{CELL.pattern}"
    r"|^:::\{predict\}.*?\n(?P<choices>(?:- \[[^\n]*\n)+)",
    CELL.flags,
)
SOURCE = ROOT / "src" / "shardbook"
# What the tests that are run here don't try.
APART = {
    "__init__.py",
    "__main__.py",
    "_watch.py",
    "cli.py",
    "grading/sandbox.py",
    "grading/supervisor.py",
}
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


def pages(share: float) -> Iterator[Trial]:
    """Give each page as it is, and mutants of it."""
    for page in pages_that_run(ROOT / "docs"):
        text = page.read_text("utf-8")
        # Its cells, and the choices of its predictions.
        blocks = [
            (found["code"] or "", found["choices"] or "")
            for found in BLOCK.finditer(text)
        ]
        folder = str(page.parent)
        yield Trial(page.name, "", [folder, blocks])
        for number, (code, _) in enumerate(blocks):
            if "assert" not in code and "raises(" not in code:
                continue
            for change, source in some(code, share):
                others = [*blocks]
                others[number] = (source, "")
                yield Trial(page.name, change, [folder, others])


def solutions(folder: Path) -> Iterator[Trial]:
    """Give each solution as it is, and all its mutants, each in a file."""
    for name in NAMES:
        path = SOURCE / "problems" / f"{name}.py"
        code = path.read_text("utf-8")
        yield Trial(path.name, "", [name, str(path)])
        for number, (change, source) in enumerate(some(code, 1.0)):
            target = folder / f"{name}_{number}.py"
            target.write_text(source)
            yield Trial(path.name, change, [name, str(target)])


def package(share: float) -> Iterator[Trial]:
    """Give modules of the package as they are, and mutants of them."""
    paths = (*SOURCE.glob("*.py"), *SOURCE.glob("grading/*.py"))
    files = {path.relative_to(SOURCE).as_posix() for path in paths}
    for file in sorted(files - APART):
        code = (SOURCE / file).read_text("utf-8")
        yield Trial(file, "", [file, code])
        for change, source in some(code, share):
            yield Trial(file, change, [file, source])


def survivors(
    sandbox: Sandbox, target: str, trials: list[Trial]
) -> list[Trial]:
    """Run programs; give those that nothing caught."""
    alive = []
    arguments = [trial.arguments for trial in trials]
    outcomes = sandbox.map(f"jobs:{target}", arguments, seconds=600)
    for count, outcome in enumerate(outcomes, 1):
        trial = trials[count - 1]
        # A mutant that hangs, or dies, is caught too.
        returned = outcome.ending == "returned"
        why = outcome.value if returned else outcome.ending
        if not why:
            alive.append(trial)
        elif not trial.change:
            words = f"{trial.file} fails as it is ({target}): {why}"
            sys.exit(f"\n{words}\n{outcome.output}")
        words = f"\r{target}: {count} of {len(trials)}"
        print(words, end="", file=sys.stderr)
    print(file=sys.stderr)
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
        default=0.0,
        help="the share of mutants to try, of each cell at least one "
        "(default: 0.0), or of the package (default: 0.1)",
    )
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="a part of file: change"
    )
    options = parser.parse_args()

    def chosen(trials: Iterable[Trial]) -> list[Trial]:
        found = [
            t for t in trials if not t.change or options.only in str(t)
        ]
        files = {trial.file for trial in found if trial.change}
        return [trial for trial in found if trial.file in files]

    with (
        tempfile.TemporaryDirectory() as folder,
        Sandbox("pytest") as sandbox,
    ):
        if options.package:
            groups = {("package",): chosen(package(options.share or 0.1))}
        else:
            groups = {
                ("check", "test"): chosen(solutions(Path(folder))),
                ("page",): chosen(pages(options.share)),
            }
        alive = []
        for targets, trials in groups.items():
            left = trials
            for target in targets:
                left = survivors(sandbox, target, left)
            alive += [trial for trial in left if trial.change]
    explained = tomllib.loads(EXPLAINED.read_text("utf-8"))
    tried = [t for trials in groups.values() for t in trials if t.change]
    counts = Counter(trial.file for trial in tried)
    left = Counter(trial.file for trial in alive)
    for name, count in counts.items():
        print(f"{name:32} {count - left[name]:>5} of {count:>5} caught")
    for trial in alive:
        why = explained.get(str(trial), "not explained")
        print(f"survived: {trial}\n    {why}")
    share = 1 - len(alive) / max(1, len(tried))
    print(f"{share:.1%} of {len(tried)} caught.")
    unexplained = any(str(trial) not in explained for trial in alive)
    sys.exit(not options.package and unexplained)


if __name__ == "__main__":
    main()
