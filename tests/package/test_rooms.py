"""The rooms of the package: which imports which, and what tools need."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import shardbook

SRC = Path(__file__).parents[2] / "src"
# The rooms of the tools: each instrument, and what they are made of.
TOOLS = {
    "shardbook.tools": set[str](),
    **{
        f"shardbook.tools.{room}": {
            "shardbook.tools",
            *(f"shardbook.tools.{each}" for each in below.split()),
        }
        for room, below in {
            "arrays": "",
            "hlo": "",
            "processes": "",
            "compare": "arrays",
            "machines": "arrays",
            "layout": "compare arrays",
            "peak": "hlo arrays",
            "program": "peak hlo compare machines arrays",
            "draw": "program layout arrays",
        }.items()
    },
}
# Each room with the rooms that it may import. None of them imports upward.
ROOMS: dict[str, set[str]] = {
    **TOOLS,
    "shardbook.problems": set(),
    "shardbook.inputs": set(),
    "shardbook.book": {"shardbook.problems"},
    "shardbook.grading.jobs": {"shardbook.tools"},
    "shardbook.grading": {
        *TOOLS,
        "shardbook.problems",
        "shardbook.inputs",
        "shardbook.book",
        "shardbook.grading.jobs",
    },
    "shardbook.checks": {
        *TOOLS,
        "shardbook.problems",
        "shardbook.inputs",
        "shardbook.grading",
    },
    # pytest loads it, and it is for anyone's tests.
    "shardbook.pytest_plugin": {*TOOLS},
    "shardbook.reader": {
        *TOOLS,
        "shardbook.problems",
        "shardbook.book",
        "shardbook.grading",
        "shardbook.grading.jobs",
    },
}
# A class is printed or saved by a module that knows the class: no other two
# modules may need each other.
PRINTERS = {
    "shardbook.grading.show": "shardbook.grading.verdict",
    "shardbook.tools.layout.table": "shardbook.tools.layout.layout",
    **dict.fromkeys(
        (
            f"shardbook.tools.program.{each}"
            for each in ("budgets", "record", "table")
        ),
        "shardbook.tools.program.report",
    ),
}
# What neither a tool nor anything that it imports may need.
BLOCKED = ("cloudpickle", "flax", "psutil", "rich", "typer", "watchfiles")
TRY_TOOLS = f"""
import sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED!r}:
            raise ModuleNotFoundError(f"{{name}} is blocked", name=name)

sys.meta_path.insert(0, Blocked())
import jax
import shardbook

tree = {{"kernel": jax.numpy.ones((4, 4))}}
print(shardbook.layout(tree), shardbook.draw(tree))
seen = shardbook.program(lambda tree: tree["kernel"].sum(), tree)
print(seen.within(collectives={{}}))
for name in ("check", "processes"):
    try:
        getattr(shardbook, name)
    except ImportError as error:
        print(error)
"""


def modules() -> Iterator[tuple[str, Path]]:
    """Give the modules of the package, by name."""
    for path in sorted(SRC.glob("shardbook/**/*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        yield ".".join(parts).removesuffix(".__init__"), path


def imported(path: Path) -> Iterator[str]:
    """Give the names that a module imports, wherever it does."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{each.name}" for each in node.names)


def room_of(name: str) -> str:
    """Give the innermost room that a module, or a name in it, is in."""
    found = [room for room in ROOMS if f"{name}.".startswith(f"{room}.")]
    return max(found, key=len, default="")


def test_no_room_imports_upward() -> None:
    """Each module imports from its own room and from those below it."""
    list(TopologicalSorter(ROOMS).static_order())
    upward = [
        f"{name} imports {other}"
        for name, path in modules()
        for other in imported(path)
        if (room := room_of(name))
        and (below := room_of(other))
        and below not in {room, *ROOMS[room]}
    ]

    assert not upward


def test_no_circle_but_a_class_and_its_printer() -> None:
    """No module needs one that needs it, wherever it is imported."""
    paths = dict(modules())
    needs = {
        name: {
            other if other in paths else other.rpartition(".")[0]
            for other in imported(path)
        }
        - {PRINTERS.get(name)}
        for name, path in paths.items()
    }

    # A CycleError names the modules of a circle.
    assert [*TopologicalSorter(needs).static_order()]


def test_no_room_imports_from_the_package_itself() -> None:
    """A public name is imported from its module, which is in a room."""
    upward = [
        f"{name} imports {other}"
        for name, path in modules()
        for other in imported(path)
        if room_of(name)
        and other in {f"shardbook.{each}" for each in shardbook.__all__}
    ]

    assert not upward


def test_every_module_has_a_room() -> None:
    """Only the package itself, and what starts it, is in none."""
    outside = {name for name, _ in modules() if not room_of(name)}

    assert outside == {"shardbook", "shardbook.__main__"}


def test_no_private_name_crosses_rooms() -> None:
    """A name that begins with an underscore stays in its module."""
    private = [
        f"{name} imports {other}"
        for name, path in modules()
        for other in imported(path)
        if other.startswith("shardbook.")
        and other.rpartition(".")[2].startswith("_")
        and not other.endswith(("._flax", "._jax_internals", "__version__"))
    ]

    assert not private


def test_the_tools_need_jax_and_numpy_alone() -> None:
    """They work on plain arrays where nothing else can be imported."""
    done = subprocess.run(
        (sys.executable, "-c", TRY_TOOLS), capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert "float32[4,4]" in done.stdout
    for name in ("check", "processes"):
        assert (
            f"shardbook.{name} needs cloudpickle, which is" in done.stdout
        )
    assert "python3 -m pip install cloudpickle\n" in done.stdout
