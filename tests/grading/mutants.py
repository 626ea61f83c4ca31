"""Change the code of checks in one place each, and see which are noticed.

    python tests/grading/mutants.py draw > tests/grading/mutants.txt
    python tests/grading/mutants.py run tests/grading/mutants.txt

A mutant is caught if an attempt gets another verdict than its table says.
``mutants.txt`` has a mutant in each row, and what ``run`` printed of it.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from edits import SOLUTIONS, Attempt, attempts, jobs
from many import grade_jobs, heading_of, words_of

from shardgrade.jobs.job import open_sandbox
from shardgrade.jobs.limits import Limits

ROOT = Path(__file__).parents[2]
SEED, OF_CHECKS, OF_GRADING = 0, 60, 20
PATIENT = Limits(seconds=900)
# Whose attempts have to notice a change of grading/: those whose checks use
# most of it.
USERS = (
    "fsdp_step",
    "explicit_mlp",
    "place_batch",
    "mixed_precision_step",
    "split_merge_round_trip",
)
OTHER = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}


class Mutant(NamedTuple):
    """A change of one expression.

    Attributes:
        path: The file, from the root.
        line: The line on which the expression begins, from 1.
        column: Where it begins, in bytes.
        old: The expression.
        new: What takes its place.
    """

    path: str
    line: int
    column: int
    old: str
    new: str


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Give each change of a file."""
    text = path.read_text("utf-8")
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.expr | ast.keyword):
            continue
        new = changed(node)
        old = ast.get_source_segment(text, node) if new is not None else ""
        # Of one line, as the list has them.
        if old and "\n" not in old and new != old:
            place = (
                str(path.relative_to(ROOT)),
                node.lineno,
                node.col_offset,
            )
            yield Mutant(*place, old, new or "")


def changed(node: ast.AST) -> str | None:
    """Write an expression in another way, if it is of a kind for that."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            sides = ast.unparse(left), ast.unparse(right)
            return f" {OTHER[type(operator)]} ".join(sides)
        case ast.BoolOp(op=operator, values=values):
            word = " or " if isinstance(operator, ast.And) else " and "
            return f"({word.join(map(ast.unparse, values))})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"bool({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            return repr(not value)
        case ast.Constant(value=int(value) | float(value)):
            return repr(2 * value + 1)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            sign = "-" if isinstance(node.op, ast.Add) else "+"
            return f"({ast.unparse(left)} {sign} {ast.unparse(right)})"
        case ast.Call(func=ast.Attribute(attr="AtMost"), args=[times, *_]):
            return ast.unparse(node).replace(
                f"({ast.unparse(times)}", "(1000", 1
            )
        case ast.keyword(arg="agree" | "under"):
            return f"{node.arg}=None"
    return None


def draw() -> Iterator[Mutant]:
    """Draw lines of code at random, and a change of each."""
    chance = random.Random(SEED)
    for folder, count in (("checks", OF_CHECKS), ("grading", OF_GRADING)):
        lines: dict[tuple[str, int], list[Mutant]] = {}
        for path in sorted(
            (ROOT / "src/shardgrade" / folder).rglob("*.py")
        ):
            for each in mutants_of(path):
                lines.setdefault((each.path, each.line), []).append(each)
        for line in chance.sample(sorted(lines), count):
            yield chance.choice(lines[line])


def problems_of(path: Path) -> list[str]:
    """Name the problems whose attempts must notice a change of a file."""
    if path.parent.name != "checks":
        return [*USERS]
    if not path.stem.startswith("_"):
        return [path.stem]
    texts = (ROOT / "src/shardgrade/checks").glob("[a-z]*.py")
    return sorted(
        t.stem for t in texts if path.stem in t.read_text("utf-8")
    )


def run(mutant: Mutant) -> str:
    """Grade attempts with a mutant; say whether one noticed."""
    path = Path(mutant.path)
    with TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", f"{folder}/src")
        # The grader reads the pages beside src.
        Path(folder, "docs").symlink_to(ROOT / "docs")
        copy = Path(folder, path)
        lines = copy.read_bytes().splitlines(keepends=True)
        line = lines[mutant.line - 1]
        start, rest = line[: mutant.column], line[mutant.column :]
        old = mutant.old.encode()
        if not rest.startswith(old):
            return "gone: the line is another now"
        new = mutant.new.encode() + rest[len(old) :]
        lines[mutant.line - 1] = start + new
        copy.write_bytes(b"".join(lines))
        done = subprocess.run(
            (sys.executable, __file__, "grade", *problems_of(path)),
            env={**os.environ, "PYTHONPATH": f"{folder}/src"},
            capture_output=True,
            text=True,
        )
    if done.returncode == 0:
        return "not caught"
    *_, last = ["by an error of the run", *done.stdout.splitlines()]
    return f"caught: {last}"


def grade(problem: str) -> str:
    """Grade attempts until one gets another verdict; name it."""
    ours = Attempt(
        problem,
        "solution",
        "right",
        (SOLUTIONS / f"{problem}.py").read_text("utf-8"),
    )
    todo = [ours, *attempts(problem)]
    # Right ones first, because they are told apart soonest.
    todo.sort(key=lambda each: each.verdict != "right")
    with open_sandbox() as sandbox, TemporaryDirectory() as folder:
        size = 4
        while todo:
            some, todo, size = todo[:size], todo[size:], 2 * size
            tables = {str(each): each for each in some}
            now = jobs(some, Path(folder), 8)
            try:
                verdicts = grade_jobs(sandbox, now, PATIENT)
            except AssertionError as error:
                return f"{problem}: {error}"
            for each in verdicts:
                table, found = tables[each.source], heading_of(each)
                if found != table.verdict:
                    return f"{each.source} is {found}"
                if table.says not in words_of(each):
                    return f"{each.source} says something else"
    return ""


def main() -> None:
    """Draw mutants, or run those of a list."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("draw", "run", "grade"))
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.what == "grade":
        for problem in options.names:
            if found := grade(problem):
                print(found)
                sys.exit(1)
        return
    if options.what == "draw":
        for mutant in draw():
            print(*mutant, sep="\t")
        return
    rows = Path(*options.names).read_text("utf-8").splitlines()
    todo = [
        Mutant(path, int(line), int(column), old, new)
        for path, line, column, old, new in (
            r.split("\t")[:5] for r in rows
        )
    ]
    results = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant, words in zip(todo, pool.map(run, todo), strict=True):
            print(*mutant, words, sep="\t", flush=True)
            results.append(words)
    caught = sum(words.startswith("caught") for words in results)
    print(f"# {caught} of {len(results)} caught")


if __name__ == "__main__":
    main()
