"""The rooms of the packages: which imports which, and what tools need."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import shardgrade
import shardscope

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
SITE = "shardbook_site"
PACKAGES = [path.parent.name for path in sorted(SRC.glob("*/__init__.py"))]
# The rooms of the tools: each instrument, and what they are made of.
TOOLS = {
    "shardscope": set[str](),
    **{
        f"shardscope.{room}": {
            "shardscope",
            *(f"shardscope.{each}" for each in below.split()),
        }
        for room, below in {
            "arrays": "",
            "hlo": "",
            "cluster": "",
            "compare": "arrays",
            "machines": "arrays",
            "layouts": "compare arrays",
            "peak": "hlo arrays",
            "propagation": "arrays",
            "programs": "peak hlo compare machines propagation arrays",
            "drawings": "programs layouts arrays",
            # pytest loads it, and it is for anyone's tests.
            "pytest_plugin": "layouts programs compare arrays",
        }.items()
    },
}
# Each room with the rooms that it may import. None of them imports upward.
ROOMS: dict[str, set[str]] = {
    **TOOLS,
    "shardbook.problems": set(),
    "shardbook.inputs": set(),
    "shardbook.show_error": set(),
    "shardbook.messages": set(),
    "shardbook.book": {"shardbook.problems", "shardbook.messages"},
    "shardgrade.grading": {
        *TOOLS,
        "shardbook.problems",
        "shardbook.inputs",
        "shardbook.book",
    },
    "shardgrade.checks": {
        *TOOLS,
        "shardbook.problems",
        "shardbook.inputs",
        "shardgrade.grading",
    },
    "shardgrade.jobs": {
        *TOOLS,
        "shardbook.book",
        "shardgrade.grading",
        "shardgrade.checks",
    },
    "shardgrade.reader": {
        *TOOLS,
        "shardbook.problems",
        "shardbook.messages",
        "shardbook.book",
        "shardgrade.grading",
        "shardgrade.jobs",
    },
    # The packages themselves, and what starts the command.
    "shardbook": {"shardbook.show_error"},
    "shardgrade": {"shardscope", "shardgrade.reader"},
    SITE: {
        *TOOLS,
        "shardbook.problems",
        "shardbook.inputs",
        "shardbook.book",
        "shardgrade.reader",
    },
}
# A class is printed or saved by a module that knows the class: no other two
# modules may need each other.
PRINTERS = {
    "shardgrade.grading.show": "shardgrade.grading.verdict",
    "shardscope.layouts.table": "shardscope.layouts.layout",
    **dict.fromkeys(
        (
            f"shardscope.programs.{each}"
            for each in ("budgets", "findings", "head", "record", "table")
        ),
        "shardscope.programs.report",
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
import shardgrade
import shardscope

tree = {{"kernel": jax.numpy.ones((4, 4))}}
print(shardscope.layout(tree), shardscope.draw(tree))
seen = shardscope.program(lambda tree: tree["kernel"].sum(), tree)
print(seen.within(collectives={{}}))
for package, name in ((shardgrade, "check"), (shardscope, "processes")):
    try:
        getattr(package, name)
    except ImportError as error:
        print(error)
"""


def modules(source: Path = SRC) -> Iterator[tuple[str, Path]]:
    """Give the modules of the packages, by name."""
    for path in sorted(source.glob("**/*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        yield ".".join(parts).removesuffix(".__init__"), path


def imported(path: Path) -> Iterator[str]:
    """Give the names that a module imports, wherever it does.

    A text that is nothing but the name of a module counts.
    """
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Constant):
            name, dot, rest = str(node.value).partition(".")
            if name in PACKAGES and dot and " " not in rest:
                yield f"{name}.{rest}".removesuffix(".")


def room_of(name: str) -> str:
    """Give the innermost room that a module, or a name in it, is in."""
    found = [room for room in ROOMS if f"{name}.".startswith(f"{room}.")]
    return max(found, key=len, default="")


def upward(source: Path) -> list[str]:
    """Name what modules import from rooms that they may not import."""
    return [
        f"{name} imports {other}"
        for name, path in modules(source)
        # The public names come from all rooms.
        if name not in PACKAGES or name == "shardbook"
        for other in imported(path)
        if (below := room_of(other))
        and below not in {room_of(name), *ROOMS[room_of(name)]}
    ]


def test_no_room_imports_upward() -> None:
    """Each module imports from its own room and from those below it."""
    list(TopologicalSorter(ROOMS).static_order())

    assert not upward(SRC)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("shardbook/problems/a", "import shardscope.tables"),
        ("shardbook/problems/a", "from shardbook import inputs"),
        ("shardbook/inputs/a", "name = 'shardgrade.grading.same'"),
        ("shardscope/arrays/a", "from shardscope.hlo import Module"),
        ("shardscope/a", "def f():\n    from shardbook import book"),
        ("shardgrade/grading/a", "name = f'shardgrade.checks.{1}'"),
        ("shardgrade/grading/a", "import shardbook_site.kept"),
        ("shardbook_site/a", "import shardgrade.checks.place_batch"),
    ],
)
def test_what_imports_upward_is_found(
    tmp_path: Path, module: str, text: str
) -> None:
    """In each package."""
    path = tmp_path / f"{module}.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)

    assert len(upward(tmp_path)) == 1


def test_every_package_is_checked_and_delivered() -> None:
    """Types, lines that no test runs and the wheel are of all packages."""
    found = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    tools = found["tool"]
    delivered = [each for each in PACKAGES if each != SITE]
    wheel = tools["hatch"]["build"]["targets"]["wheel"]["packages"]

    assert {*PACKAGES} == {
        path.name for path in SRC.iterdir() if path.is_dir()
    }
    assert tools["mypy"]["packages"] == PACKAGES
    assert tools["coverage"]["run"]["source_pkgs"] == delivered
    assert wheel == [f"src/{each}" for each in delivered]


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
        if name not in PACKAGES
    }

    # A CycleError names the modules of a circle.
    assert [*TopologicalSorter(needs).static_order()]


def test_a_public_name_is_imported_from_its_module() -> None:
    """A module is in a room; a package itself is in none."""
    public = {
        f"{package.__name__}.{each}"
        for package in (shardscope, shardgrade)
        for each in package.__all__
    }
    found = [
        f"{name} imports {other}"
        for name, path in modules()
        if not name.startswith(SITE)
        for other in imported(path)
        if other in public
    ]

    assert not found


def test_every_module_has_a_room() -> None:
    """Only the packages themselves, and what starts one, are in none."""
    outside = {
        name
        for name, _ in modules()
        if room_of(name) in ("shardbook", "shardgrade")
    }

    assert outside == {"shardbook", "shardgrade", "shardgrade.__main__"}


def test_no_private_name_crosses_rooms() -> None:
    """A name that begins with an underscore stays in its module."""
    private = [
        f"{name} imports {other}"
        for name, path in modules()
        for other in imported(path)
        if other.partition(".")[0] in PACKAGES
        and other.rpartition(".")[2].startswith("_")
        and not other.endswith(("._flax", "._jax_internals", ".__main__"))
    ]

    assert not private


def test_the_tools_need_jax_and_numpy_alone() -> None:
    """They work on plain arrays where nothing else can be imported."""
    done = subprocess.run(
        (sys.executable, "-c", TRY_TOOLS), capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert "float32[4,4]" in done.stdout
    for name in ("shardgrade.check", "shardscope.processes"):
        assert f"{name} needs cloudpickle, which is" in done.stdout
    assert "python3 -m pip install cloudpickle\n" in done.stdout
