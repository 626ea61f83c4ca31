"""The fixture ``shardscope``, in runs of pytest in folders of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

# Modules that a run imports first would be imported again in the next.

pytest_plugins = ["pytester"]

HEAD = """
import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
mesh = jax.make_mesh((8,), ("data",), (AxisType.Auto,))


def array(*spec):
    sharding = NamedSharding(mesh, P(*spec))
    return jax.ShapeDtypeStruct((8, 64), "float32", sharding=sharding)


def mean(x):
    return jnp.mean(x)
"""
STEP = HEAD + "\n\ndef test_step(shardscope):\n    shardscope(mean, {x})\n"
SHARDED = STEP.format(x='array("data")')
REPLICATED = STEP.format(x="array()")
UPDATE = "--shardscope-update"


class Runs:
    """A folder of tests, which pytest runs."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester
        self.path = pytester.path

    def write(self, text: str, name: str = "test_a.py") -> None:
        """Write a module of tests."""
        self.path.joinpath(name).write_text(text)

    def run(self, *arguments: str, apart: bool = False) -> list[str]:
        """Run pytest, and give what it says, line by line."""
        run = self._pytester.runpytest_inprocess
        if apart:
            run = self._pytester.runpytest_subprocess
        usual = ("-p", "shardscope.pytest_plugin", "-p", "no:cacheprovider")
        self.result = run(*usual, *arguments)
        return self.result.outlines

    def files(self) -> list[str]:
        """Give the files of the fixture."""
        return sorted(
            str(path.relative_to(self.path))
            for path in self.path.rglob("__shardscope__/*/*")
        )


@pytest.fixture
def runs(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> Runs:
    """Give an empty folder, in which the plugin is not installed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("COLUMNS", "200")
    return Runs(pytester)


def failure(lines: list[str]) -> str:
    """Join the lines of a failure."""
    return "\n".join(
        line.removeprefix("E").strip()
        for line in lines
        if line.startswith("E ")
    )


FILE = "__shardscope__/test_a/test_step.json"
COMMAND = "pytest --shardscope-update test_a.py::test_step"


def test_from_the_first_run_to_a_difference(runs: Runs) -> None:
    """A file is missing, written, compared with, and written again."""
    runs.write(SHARDED)
    missing = failure(runs.run())

    assert f"There is no {FILE} to compare with." in missing
    assert missing.count(COMMAND) == 1
    assert "1 all-reduce of f32 over data" in missing
    assert runs.files() == []

    assert f"wrote {FILE}" in runs.run(UPDATE)
    assert runs.files() == [FILE]
    before = runs.path.joinpath(FILE).read_bytes()
    assert "shardscope" not in "".join(runs.run()[5:])
    runs.result.assert_outcomes(passed=1)

    runs.write(REPLICATED)
    stale = failure(runs.run())
    assert f"What the step does is not what {FILE} says:" in stale
    assert "gone: 1 all-reduce of f32[] over data" in stale
    assert "P('data') -> P()" in stale
    assert stale.endswith(
        f"intended, write the file again and commit it: {COMMAND}"
    )
    assert runs.path.joinpath(FILE).read_bytes() == before

    runs.run(UPDATE)
    assert runs.path.joinpath(FILE).read_bytes() != before
    runs.run()
    runs.result.assert_outcomes(passed=1)


@pytest.mark.exhaustive("each run of pytest takes seconds")
def test_the_command_is_for_the_folder_that_pytest_runs_in(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test is named from there, and not from pytest's root directory."""
    runs.write("[pytest]", "pytest.ini")
    (runs.path / "part").mkdir()
    runs.write(SHARDED, "part/test_a.py")
    monkeypatch.chdir(runs.path / "part")

    assert COMMAND in failure(runs.run())
    assert f"wrote {FILE}" in runs.run(UPDATE, "test_a.py::test_step")


@pytest.mark.exhaustive("each run of pytest takes seconds")
def test_an_update_without_a_change_writes_nothing(runs: Runs) -> None:
    """The time of a file stays, too."""
    runs.write(SHARDED)
    runs.run(UPDATE)
    before = runs.path.joinpath(FILE).stat().st_mtime_ns

    assert "wrote" not in "".join(runs.run(UPDATE))
    assert runs.path.joinpath(FILE).stat().st_mtime_ns == before


NAMES = """

class TestSteps:
    @pytest.mark.parametrize("spec", ["data", "a/b", "a:b", 150 * "x"])
    def test_step(self, shardscope, spec):
        shardscope(mean, array("data"))
        shardscope(mean, array())
        shardscope(mean, array(), name="whole")
"""


@pytest.mark.exhaustive("each run of pytest takes seconds")
def test_each_call_has_a_file(runs: Runs) -> None:
    """Classes, parameters and names are told apart in any file system."""
    runs.write(HEAD + NAMES)
    runs.run(UPDATE)
    files = [Path(name).name for name in runs.files()]

    assert len({*files}) == 12
    assert "TestSteps.test_step[data].json" in files
    assert "TestSteps.test_step[data].2.json" in files
    assert "TestSteps.test_step[data].whole.json" in files
    assert max(map(len, files)) < 200
    assert not set("".join(files)) & set('/\\:*?"<>| ')

    runs.run()
    runs.result.assert_outcomes(passed=4)


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (
            'shardscope(mean, array(), name="a")\n'
            '    shardscope(mean, array(), name="a")',
            "Two calls of this test have name='a'",
        ),
        ('shardscope(mean, array(), name="a/b")', "use letters and digits"),
        (
            "shardscope(mean, array(), memory=8)",
            "expected at most 8",
        ),
        (
            "shardscope(mean, array(), tolerance=2)",
            "such as 0.02 for 2 per",
        ),
    ],
)
def test_what_is_refused(runs: Runs, calls: str, message: str) -> None:
    """It is so in an update as well, and nothing is written over."""
    runs.write(f"{HEAD}\n\ndef test_step(shardscope):\n    {calls}\n")

    assert message in failure(runs.run(UPDATE))
    assert len(runs.files()) < 2


@pytest.mark.exhaustive("each run of pytest takes seconds")
def test_programs_and_layouts_are_taken_as_they_are(runs: Runs) -> None:
    """The calls return them, too."""
    runs.write(
        f"""{HEAD}
from shardscope import layout, program


def test_step(shardscope):
    seen = program(mean, array("data"))
    assert shardscope(seen) is seen
    assert shardscope(mean, array("data"), name="2b").collectives
    found = layout([array("data")])
    assert shardscope(found, name="layout") is found
"""
    )
    runs.run(UPDATE)
    runs.result.assert_outcomes(passed=1)
    head = '{\n "shardscope": "layout"'
    path = runs.path / FILE.replace(".json", ".layout.json")
    assert path.read_text().startswith(head)
    runs.run()
    runs.result.assert_outcomes(passed=1)


@pytest.mark.exhaustive("each run of pytest takes seconds")
def test_a_damaged_file(runs: Runs) -> None:
    """A conflict of git, for example, is said to be none of ours."""
    runs.write(SHARDED)
    runs.run(UPDATE)
    path = runs.path / FILE
    path.write_text("<<<<<<< HEAD\n" + path.read_text())
    said = failure(runs.run())

    assert f"{FILE} is not a saved" in said
    assert said.endswith(COMMAND)


@pytest.mark.exhaustive("each run of pytest takes seconds")
def test_a_file_of_an_earlier_format(runs: Runs) -> None:
    """It names arguments by numbers; an update writes it again."""
    runs.write(SHARDED)
    runs.run(UPDATE)
    path = runs.path / FILE
    text = path.read_text()
    path.write_text(json.dumps({**json.loads(text), "format": 1}))
    said = failure(runs.run())

    assert f"{FILE} has format 1, from an earlier shardbook" in said
    assert "Write it again: pytest --shardscope-update, or " in said
    assert said.endswith(COMMAND)
    assert f"wrote {FILE}" in runs.run(UPDATE)
    assert path.read_text() == text
    runs.run()
    runs.result.assert_outcomes(passed=1)


@pytest.mark.exhaustive("each run of pytest takes seconds")
def test_another_machine(runs: Runs) -> None:
    """A file of another mesh is not compared row by row."""
    runs.write(SHARDED)
    runs.run(UPDATE)
    path = runs.path / FILE
    saved = json.loads(path.read_text())
    path.write_text(json.dumps({**saved, "chip": "NVIDIA H100 80GB HBM3"}))
    said = failure(runs.run())

    assert "NVIDIA H100 80GB HBM3, data=8 -> cpu, data=8" in said
    assert "Compile for the same chip and mesh" in said
    assert "all-reduce" not in said


@pytest.mark.exhaustive("each run of pytest takes seconds")
def test_a_checkout_that_cannot_be_written(runs: Runs) -> None:
    """A run compares as ever; an update says where to do it."""
    runs.write(SHARDED)
    runs.path.joinpath("__shardscope__").touch()

    assert failure(runs.run(UPDATE)).startswith(
        f"Failed: Can't write {FILE} ("
    )


# --- Files that no test uses ---

TWO = SHARDED + "\n\ndef test_other(shardscope):\n    {body}\n"
USES = TWO.format(body="shardscope(mean, array())")
OTHER = "__shardscope__/test_a/test_other.json"
OLD = "__shardscope__/test_old/test_step.json"


@pytest.fixture
def updated(runs: Runs) -> Runs:
    """Write the files of two tests, and of a module that is gone."""
    runs.write(USES)
    runs.write(SHARDED, "test_old.py")
    runs.run(UPDATE)
    runs.path.joinpath("test_old.py").unlink()

    assert runs.files() == [OTHER, FILE, OLD]
    return runs


@pytest.mark.exhaustive("each run of pytest takes seconds")
def test_unused_files(updated: Runs) -> None:
    """A run names them, and an update deletes them."""
    updated.write(SHARDED)
    said = updated.run()

    assert (
        f"no test uses {OTHER}: delete it, or have {UPDATE} do so" in said
    )
    assert any(line.startswith(f"no test uses {OLD}") for line in said)
    assert updated.result.ret == 0
    assert len(updated.files()) == 3

    assert f"deleted {OTHER}, which is unused" in updated.run(UPDATE)
    assert updated.files() == [FILE]


@pytest.mark.exhaustive("each run of pytest takes seconds")
@pytest.mark.parametrize(
    "body",
    [
        "pytest.skip()",
        "assert False",
        "pytest.xfail()",
        "shardscope(mean)",
    ],
)
def test_a_test_that_did_not_end_keeps_its_files(
    updated: Runs, body: str
) -> None:
    """It may use them another time; other files are still deleted."""
    updated.write(TWO.format(body=body))
    updated.run(UPDATE)

    assert updated.files() == [OTHER, FILE]


@pytest.mark.exhaustive("each run of pytest takes seconds")
@pytest.mark.parametrize(
    "arguments",
    [["-k", "step"], ["--deselect", "test_a.py::test_other"]],
)
def test_a_selection_keeps_the_files_of_the_rest(
    updated: Runs, arguments: list[str]
) -> None:
    """Tests were collected, but did not run."""
    updated.run(UPDATE, *arguments)

    assert updated.files() == [OTHER, FILE]


@pytest.mark.exhaustive("each run of pytest takes seconds")
def test_naming_a_test_keeps_all_files(updated: Runs) -> None:
    """Pytest doesn't say what else is in the module."""
    updated.run(UPDATE, "test_a.py::test_step")

    assert updated.files() == [OTHER, FILE, OLD]


@pytest.mark.exhaustive("each run of pytest takes seconds")
def test_a_module_that_cannot_be_imported_keeps_its_files(
    updated: Runs,
) -> None:
    """Nothing is known of its tests."""
    updated.write("import does_not_exist")
    updated.write("def test_b(): pass", "test_b.py")
    updated.run(UPDATE, "--continue-on-collection-errors")

    assert {*updated.files()} >= {OTHER, FILE}


@pytest.mark.exhaustive("each run of pytest takes seconds")
def test_with_workers(updated: Runs) -> None:
    """Under pytest-xdist files are written, compared and deleted too."""
    parallel = ("-p", "xdist", "-n", "2")
    updated.write(
        USES
        + "\n\ndef test_new(shardscope):\n    shardscope(mean, array())\n"
    )
    updated.path.joinpath(FILE).unlink()
    said = updated.run(UPDATE, *parallel, apart=True)

    assert f"wrote {FILE}" in said
    assert f"deleted {OLD}, which is unused" in said
    new = FILE.replace("step", "new")
    assert updated.files() == [new, OTHER, FILE]

    updated.write(USES)
    said = updated.run(*parallel, "-k", "step", apart=True)
    assert any(line.startswith(f"no test uses {new}") for line in said)
    assert not any(
        line.startswith(f"no test uses {OTHER}") for line in said
    )


# --- Its place in pytest ---

ASK = """
import sys

import pytest

pytest.main(["-p", "shardscope.pytest_plugin", "--co", "-q"])
sys.exit("jax" in sys.modules or "numpy" in sys.modules)
"""


def test_it_costs_a_run_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run without the fixture imports neither jax nor numpy."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    done = subprocess.run((sys.executable, "-c", ASK), cwd=tmp_path)

    assert done.returncode == 0
