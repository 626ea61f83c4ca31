"""Programs that are saved and compared, and the words for a difference."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, strategies as st
from jax.sharding import NamedSharding, PartitionSpec as P
from training_step import (
    MESH,
    array,
    block,
    gathering_block,
    matmul,
    params_of,
    state_of,
    step_of,
)

from shardscope import (
    LayoutMismatch,
    Program,
    ProgramMismatch,
    layout,
    program,
)
from shardscope.compare.diff import difference_of_files
from shardscope.compare.difference import (
    SHOWN,
    Change,
    Difference,
    changes_of_arrays,
    sized,
)
from shardscope.compare.files import FORMAT, read, save
from shardscope.compare.programs import compare
from shardscope.programs.record import record_of


@pytest.fixture(scope="module")
def unbroken() -> Program:
    """Give the step without a mistake."""
    return step_of()


@pytest.fixture
def saved(unbroken: Program, tmp_path: Path) -> Path:
    """Save the step without a mistake."""
    path = tmp_path / "step.json"
    unbroken.save(path)
    return path


def edited(path: Path, edit: Callable[[Any], None]) -> Path:
    """Change what a file says."""
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))
    return path


# --- Mistakes ---

SWAPPED = params_of(up=P("model", "data"))
MISTAKES: dict[str, tuple[Callable[[], Program], list[str]]] = {
    "a spec is swapped": (
        lambda: step_of(params=SWAPPED),
        [
            "changed: params.blocks.1.up: P('data', 'model') -> "
            "P('model', 'data')"
        ],
    ),
    "the optimizer state is replicated": (
        lambda: step_of(state=state_of(params_of(), P())),
        [
            "grown: state.0.mu.blocks.*.down ×2: P('model', 'data') "
            "-> P(), 8,192 -> 65,536 bytes (+700%) on a device each",
            "new: .* all-gather of f32",
            "grown: memory, ",
        ],
    ),
    "a weight is gathered": (
        lambda: step_of(apply=gathering_block),
        [
            "new: 2 all-gather of params.blocks.*.up over model",
            "grown: memory, ",
            "    temporaries ",
            "passed as before, so look for the cause inside the function",
        ],
    ),
    "the batch is not sharded": (
        lambda: step_of(
            batch=jax.ShapeDtypeStruct(
                (16, 64), "float32", sharding=NamedSharding(MESH, P())
            )
        ),
        [
            "grown: batch: P('data') -> P(), 2,048 -> 4,096 bytes (+100%) "
            "on a"
        ],
    ),
    "nothing is donated": (
        lambda: step_of(donate=()),
        [
            "gone: donation of params, state, .* -> 0 bytes (-100%) on a "
            "device",
            "donate_argnames=('params', 'state') to jax.jit",
            "Begin with the arguments: ",
            "no longer reuse their memory. To donate them, pass donate_",
            "grown: memory, ",
            " donated .* -> 0",
        ],
    ),
    "the batch is a NumPy array": (
        lambda: step_of(batch=np.ones((16, 64), np.float32)),
        [
            "new: transfer of batch, a NumPy array, 16,384 bytes before "
            "each call",
            "    Place it with jax.device_put before the call, as "
            "P('data'); weights once, a batch each time.",
        ],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake(mistake: str, saved: Path) -> None:
    """The message names the array, argument or line to repair."""
    broken, expected = MISTAKES[mistake]
    with pytest.raises(ProgramMismatch) as caught:
        broken().match(saved)
    first, *lines, last = str(caught.value).splitlines()

    assert re.fullmatch(rf"\d+ differences? from {saved}:", first)
    for words in expected:
        assert any(matches(words, line) for line in lines), (words, lines)
    assert (
        f"write it again: program(step, ...).save({str(saved)!r})" in last
    )


def matches(words: str, line: str) -> bool:
    """Tell whether a line has these words, with gaps written ``.*``."""
    pattern = ".*".join(map(re.escape, words.split(".*")))
    return bool(re.search(pattern, line))


def accumulating(once: bool) -> Program:
    """Add up gradients of four parts, and of devices once or each time."""

    def gradient_of_parts(w: Any, x: Any) -> Any:
        if once:
            w = jax.lax.pcast(w, ("data", "model"), to="varying")

        def add(total: Any, part: Any) -> Any:
            return total + jax.grad(lambda w: (part @ w).sum())(w), None

        parts = x.reshape(4, -1, 32)
        total = jax.lax.scan(add, jnp.zeros_like(w), parts)[0]
        return jax.lax.psum(total, ("data", "model")) if once else total

    def step(w: Any, x: Any) -> Any:
        rows = P(("data", "model"))
        return jax.shard_map(
            gradient_of_parts,
            mesh=MESH,
            in_specs=(P(), rows),
            out_specs=P(),
        )(w, x)

    rows = NamedSharding(MESH, P(("data", "model")))
    x = jax.ShapeDtypeStruct((64, 32), "float32", sharding=rows)
    w = jax.ShapeDtypeStruct(
        (32, 16), "float32", sharding=NamedSharding(MESH, P())
    )
    return program(jax.jit(step), w, x)


def test_an_all_reduce_in_the_loop_of_accumulation() -> None:
    """As once in MaxText, see its pull request 5056."""
    lines = str(accumulating(False) - accumulating(True))

    assert "4 all-reduce of f32[32,16] over data and model" in lines
    assert "`return total + jax.grad(" in lines
    assert "1 -> 4 times" in lines or "gone: 1 all-reduce" in lines


def test_an_embedding_that_is_gathered() -> None:
    """As once in sglang-jax, see its pull request 1083."""
    mesh = jax.make_mesh((2, 4), ("data", "model"))  # Explicit

    def looked_up(spec: P) -> Program:
        def embed(table: Any, ids: Any) -> Any:
            found = table.at[ids].get(out_sharding=spec)
            return jax.sharding.reshard(found, P("data", None))

        table = NamedSharding(mesh, P("model", None))
        ids = NamedSharding(mesh, P("data"))
        return program(
            jax.jit(embed),
            jax.ShapeDtypeStruct((64, 8), "float32", sharding=table),
            jax.ShapeDtypeStruct((16,), "int32", sharding=ids),
        )

    with jax.set_mesh(mesh):
        lines = str(looked_up(P(None, None)) - looked_up(P("data", None)))

    assert "over data" in lines
    assert "`found = table.at[ids].get(out_sharding=spec)`" in lines


def test_the_totals_come_before_short_lines(unbroken: Program) -> None:
    """Each change has a short line, and below it what takes more."""
    difference = step_of(apply=gathering_block) - unbroken
    lines = str(difference).splitlines()
    short = [line for line in lines[:-1] if not line.startswith("    ")]

    assert [x.part for x in difference.changes[:2]] == ["sent", "memory"]
    assert len(short) == len(difference.changes)
    assert max(map(len, short)) < 110
    assert not any("`" in line for line in short)
    assert any("`return x @ w`" in line for line in lines)


def test_a_repair_is_a_difference_too(
    saved: Path, unbroken: Program
) -> None:
    """Less than the file says fails, because the file is out of date."""
    saved.unlink()
    step_of(apply=gathering_block).save(saved)

    with pytest.raises(ProgramMismatch, match=r"\ngone: 2 all-gather of "):
        unbroken.match(saved)


# --- What is the same ---


def test_the_same_step(
    saved: Path, unbroken: Program, tmp_path: Path
) -> None:
    """A step that is compiled again has the same file."""
    again = step_of()
    again.save(tmp_path / "again.json")

    assert again.match(saved, tolerance=0) is again
    assert (tmp_path / "again.json").read_text() == saved.read_text()
    assert not again - unbroken
    assert repr(again - unbroken) == "No difference."
    with pytest.raises(FileExistsError):
        again.save(saved)


def test_a_file_has_a_row_a_line(saved: Path) -> None:
    """A row that changes is one line of a pull request."""
    lines = [line.strip(" ,") for line in saved.read_text().splitlines()]
    rows = json.loads(saved.read_text())

    assert {"jax": jax.__version__}.items() <= rows["versions"].items()
    assert rows["mesh"] == {"data": 2, "model": 4}
    assert rows["chip"] == "cpu"
    assert rows["collectives"]
    assert all(json.dumps(row) in lines for row in rows["collectives"])
    for path, about in rows["arrays"].items():
        assert f"{json.dumps(path)}: {json.dumps(about)}" in lines


CODE = """
import jax

def helper(x):
    return jax.numpy.sum(x)

def step(x):
    return {call}
"""


def compiled(folder: Path, code: str) -> Program:
    """Compile the step of a file, as it is now."""
    path = folder / "moved.py"
    path.write_text(code)
    names: dict[str, Any] = {}
    exec(compile(code, path, "exec"), names)
    x = jax.ShapeDtypeStruct(
        (8, 16), "float32", sharding=NamedSharding(MESH, P("model"))
    )
    found = program(names["step"], x)
    # The lines are read from the file, which is the same for all.
    record = record_of(found)
    assert record["collectives"][0]["line"]
    return found


def test_lines_match_by_what_is_written(tmp_path: Path) -> None:
    """Code that moves, or a function's new name, makes no difference."""
    code = CODE.format(call="helper(x)")
    first = record_of(compiled(tmp_path, code))
    moved = record_of(compiled(tmp_path, f"# one more line\n{code}"))
    renamed = code.replace("helper", "assistant")
    other = record_of(compiled(tmp_path, renamed))
    squared = code.replace("sum(x)", "sum(x * x)")
    squared = squared.replace("helper", "assistant")
    written = record_of(compiled(tmp_path, squared))

    assert first["collectives"][0]["at"] != moved["collectives"][0]["at"]
    assert not compare(first, moved)
    assert first["collectives"][0]["function"] == "helper"
    assert other["collectives"][0]["function"] == "assistant"
    assert not compare(first, other)
    assert "`return jax.numpy.sum(x * x)`" in str(compare(first, written))


def test_a_loop_that_turns_more_often(tmp_path: Path) -> None:
    """It computes more, even if it needs no more bytes."""

    def turning(times: int) -> Program:
        def step(x: jax.Array) -> jax.Array:
            return jax.lax.fori_loop(0, times, lambda _, y: y @ x, x)

        return program(step, jnp.ones((8, 8)))

    (change,) = (turning(1000) - turning(10)).changes
    path = tmp_path / "step.json"
    turning(10).save(path)

    assert str(change) == (
        "grown: matrix products, 10,240 -> 1,024,000 FLOPs (+9900%) on a "
        "device"
    )
    with pytest.raises(ProgramMismatch, match="FLOPs"):
        turning(11).match(path)
    assert turning(11).match(path, tolerance=0.1)
    # A file of an earlier version has no FLOPs.
    assert turning(11).match(edited(path, lambda saved: saved.pop("flops")))


# --- Other versions and machines ---


def other_version(content: Any) -> None:
    """Make it a file of another jax, whose XLA combined all in one."""
    content["versions"]["jax"] = "0.9.0"
    for row in content["collectives"]:
        row["times"] *= 2


def test_another_version(saved: Path, unbroken: Program) -> None:
    """Under another version bytes are compared, not counts."""
    edited(saved, other_version)
    assert unbroken.match(saved) is unbroken
    with pytest.raises(ProgramMismatch) as caught:
        step_of(apply=gathering_block).match(saved)

    now = jax.__version__
    assert f"by other versions: jax 0.9.0 -> {now}. So" in str(caught.value)
    assert "not how often collectives run" in str(caught.value)


def test_counts_are_compared_under_the_same_versions(
    saved: Path, unbroken: Program
) -> None:
    """More collectives of the same bytes are a difference."""

    def more(content: Any) -> None:
        content["collectives"][0]["times"] += 1

    with pytest.raises(ProgramMismatch, match=r"changed: .* times, "):
        unbroken.match(edited(saved, more))


@pytest.mark.parametrize("factor", [1.01, 0.99, 1.1, 0.9])
@pytest.mark.parametrize("what", ["sent", "temporaries"])
def test_tolerance(
    saved: Path, unbroken: Program, factor: float, what: str
) -> None:
    """Bytes may differ by a part of the whole, in either direction."""

    def scale(content: Any) -> None:
        if what == "sent":
            for row in content["collectives"]:
                row["sent"] = round(row["sent"] * factor)
        else:
            memory = content["memory"]
            by = round(memory["total"] * (factor - 1))
            memory["total"] += by
            memory["temporaries"] += by

    edited(saved, scale)
    if abs(factor - 1) < 0.02:
        assert unbroken.match(saved)
    else:
        words = "shrunk" if factor > 1 else "grown"
        with pytest.raises(ProgramMismatch, match=f"\n{words}: "):
            unbroken.match(saved)
        assert unbroken.match(saved, tolerance=0.2)


@pytest.mark.parametrize(
    ("edit", "was"),
    [
        ({"mesh": {"data": 4, "model": 2}}, "cpu, data=4, model=2"),
        ({"chip": "TPU v5 lite"}, "TPU v5 lite, data=2, model=4"),
    ],
)
def test_another_machine(
    saved: Path, unbroken: Program, edit: Any, was: str
) -> None:
    """A file for another mesh or chip is an error that says both."""
    edited(saved, lambda content: content.update(edit))

    both = f"for {was}, but this program is for cpu, data=2, model=4"
    with pytest.raises(ValueError, match=both):
        unbroken.match(saved)
    found = compare(read(saved), record_of(unbroken))
    first = str(found.changes[0])
    assert first.startswith(f"changed: the machine: {was} -> cpu")
    # That it is another mesh is not said again of every array.
    assert "a mesh of" not in str(found)


# --- Files ---


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1]", "{}", "null", '{"shardscope": "program"}'),
        '{"shardscope": "program", "format": 2, "mesh": {}, "arrays": 3}',
    ],
)
def test_a_broken_file(
    tmp_path: Path, unbroken: Program, text: str
) -> None:
    """What save() did not write is an error that says how to write it."""
    path = tmp_path / "step.json"
    path.write_text(text)

    with pytest.raises(ValueError, match=r"Program\.save wrote.*Pass such"):
        unbroken.match(path)
    assert path.read_text() == text


@pytest.mark.parametrize(
    "name", ["memory", "collectives", "arrays", "transfers", "versions"]
)
def test_a_file_that_lacks_a_part(
    saved: Path, unbroken: Program, name: str
) -> None:
    """A file that was cut is an error, never a pass."""
    edited(saved, lambda content: content.pop(name))

    with pytest.raises(ValueError, match="is not a file that Program"):
        unbroken.match(saved)


def test_a_file_that_is_missing_or_of_something_else(
    saved: Path, unbroken: Program, tmp_path: Path
) -> None:
    """The message says what to call instead."""
    of_layout = tmp_path / "layout.json"
    layout(params_of()).save(of_layout)

    with pytest.raises(FileNotFoundError) as caught:
        unbroken.match(tmp_path / "none.json")
    assert "program(step, ...).save(" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match=r"is a saved layout, expected"):
        unbroken.match(of_layout)
    with pytest.raises(ValueError, match=r"is a saved program, expected"):
        layout(params_of()).match(saved)
    edited(saved, lambda content: content.update(format=FORMAT + 1))
    with pytest.raises(ValueError, match=r"format 3, from a newer shardbo"):
        unbroken.match(saved)


def test_a_program_of_an_earlier_format(
    saved: Path, unbroken: Program
) -> None:
    """It names arguments by numbers, so the message says to write it."""
    edited(saved, lambda content: content.update(format=1))
    text = saved.read_text()

    for read_it in (
        lambda: unbroken.match(saved),
        lambda: difference_of_files(saved, saved),
    ):
        with pytest.raises(ValueError, match="has format 1, ") as caught:
            read_it()
        assert str(caught.value) == (
            f"{saved} has format 1, from an earlier shardbook, which named "
            "arguments by numbers. Write it again: pytest "
            "--shardscope-update, or delete it and call "
            f"program(step, ...).save({str(saved)!r})"
        )
    assert saved.read_text() == text


def test_a_layout_of_an_earlier_format(tmp_path: Path) -> None:
    """Its paths are those of today, so it is read."""
    path, here = tmp_path / "layout.json", layout(params_of())
    here.save(path)
    assert json.loads(path.read_text())["format"] == 2
    edited(path, lambda content: content.update(format=1))

    assert here.match(path) is here
    assert not difference_of_files(path, path)
    with pytest.raises(LayoutMismatch, match=r"blocks\.1\.up"):
        layout(SWAPPED).match(path)


def test_what_is_no_file(unbroken: Program) -> None:
    """The message says what to write instead."""
    source = Path(__file__)
    with pytest.raises(ValueError, match=r"write one under another name"):
        unbroken.match(source)
    with pytest.raises(TypeError, match=r"got a Program; .* one - other"):
        unbroken.match(unbroken)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"got a dict; .*\(collectives="):
        unbroken.match({"all-gather": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("tolerance", [-1, 2, "2%", float("nan")])
def test_a_tolerance_is_a_part(
    saved: Path, unbroken: Program, tolerance: Any
) -> None:
    """It is not a percentage, nor a text."""
    with pytest.raises(ValueError, match="a part, such as"):
        unbroken.match(saved, tolerance=tolerance)
    with pytest.raises(ValueError, match=f"but got {tolerance!r}"):
        difference_of_files(saved, saved, tolerance)


NAMES = st.text(max_size=8)
SPECS = st.lists(st.lists(st.sampled_from(["data", "model"])), max_size=3)
MESHES = st.dictionaries(NAMES, st.integers(1, 8), max_size=3)
ARRAYS = st.dictionaries(
    NAMES,
    st.one_of(
        st.fixed_dictionaries(
            {"type": NAMES, "spec": SPECS, "bytes": st.integers(0)}
            | {"mesh": MESHES}
        ),
        st.fixed_dictionaries(
            {"type": NAMES, "spec": NAMES, "bytes": st.integers(0)}
        ),
    ),
)


@given(mesh=MESHES, arrays=ARRAYS)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, mesh: Any, arrays: Any
) -> None:
    """Reading gives what was saved, whatever the names are."""
    path = tmp_path_factory.mktemp("saved") / "layout.json"
    save("layout", {"mesh": mesh, "arrays": arrays}, path)

    assert read(path, "layout")["arrays"] == arrays
    assert not difference_of_files(path, path)


@given(before=ARRAYS, after=ARRAYS)
def test_a_difference_and_its_reverse(before: Any, after: Any) -> None:
    """What is new in one direction is gone in the other."""
    there = changes_of_arrays(before, after)
    back = changes_of_arrays(after, before)

    assert sum(x.bytes for x in there) == -sum(x.bytes for x in back)
    turned = {"new": "gone", "gone": "new", "grown": "shrunk"}
    turned |= {"shrunk": "grown", "changed": "changed"}
    names = sorted(turned[x.change] for x in there)
    assert names == sorted(x.change for x in back)


# --- Words ---


def doubled(*donated: int, dtype: Any = "float32") -> Program:
    """Compile a call whose second argument no result is like."""
    step = jax.jit(lambda x, y: (2 * x, y.sum()), donate_argnums=donated)
    x, y = array((64, 256), P("data"), dtype), array((8, 8), P())
    return program(step, x, y)


@pytest.mark.filterwarnings("ignore:Some donated buffers")
def test_donation_that_reuses_nothing() -> None:
    """It is said to reuse nothing, and why."""
    (change,) = (doubled(0, 1) - doubled(0)).changes

    assert str(change) == (
        "new: donation of y, 32,768 -> 32,768 bytes on a device\n"
        "    No result has its shape, dtype and sharding, so its memory "
        "isn't reused; leave it out of donate_argnums."
    )


def test_smaller_arguments_are_donated_as_before() -> None:
    """Less is reused then, but of each donated array all is."""
    difference = doubled(0, dtype="bfloat16") - doubled(0)

    assert {change.part for change in difference.changes} == {
        *("array", "memory")
    }


def test_bytes_of_each() -> None:
    """A line for several arrays has the bytes of one."""

    def add(params: Any, x: jax.Array) -> Any:
        return jax.tree.map(lambda leaf: leaf + x, params)

    x = array((16, 64), P("data"))
    here = np.ones((16, 64), np.float32)
    seen = repr(program(add, [here] * 2, x) - program(add, [x] * 2, x))

    assert (
        "of params.* ×2, a NumPy array, 16,384 bytes each, before" in seen
    )
    added = layout([x, x]) - layout({})
    assert repr(added).endswith(", 2,048 bytes on a device each")


def test_a_small_part() -> None:
    """A change is never said to be of no percent."""
    assert sized(10_000, 10_003) == "10,000 -> 10,003 bytes (+0.03%)"
    assert sized(10_000_000, 10_000_001) == "10,000,000 -> 10,000,001 bytes"
    assert sized(200, 100) == "200 -> 100 bytes (-50%)"


def test_a_combined_collective_counts_for_each_argument() -> None:
    """The bytes of a collective are divided over what it moves."""
    seen = step_of()
    rows = record_of(seen)["collectives"]

    assert sum(row["sent"] for row in rows) == seen.sent()
    gathers = {
        row.get("argument") for row in rows if "gather" in row["kind"]
    }
    assert gathers == {"params.blocks.*.down", "params.blocks.*.up"}


def test_a_collective_of_one_layer_names_it(unbroken: Program) -> None:
    """A row that is not of all layers names those that it is of."""
    once = iter([block, gathering_block])
    broken = step_of(apply=lambda x, weights: next(once)(x, weights))

    assert re.search(
        r"new: 1 all-gather of params\.blocks\.1\.up over model",
        repr(broken - unbroken),
    )


def test_fewer_layers_are_fewer_times() -> None:
    """The name of all layers and that of one are of the same argument."""
    once = iter([block, gathering_block])
    all_layers = step_of(apply=gathering_block)
    one = step_of(apply=lambda x, weights: next(once)(x, weights))

    name = "all-gather of params.blocks.*.up over model"
    assert matches(
        f"shrunk: {name}, .*2 -> 1 times, ", repr(one - all_layers)
    )


def test_another_collective_of_a_function_is_new(tmp_path: Path) -> None:
    """Rows that share no line, argument or type are not one row."""
    code = "import jax\ndef step(x):\n    return jax.numpy.sum(x{})\n"
    first = record_of(compiled(tmp_path, code.format("")))
    other = record_of(compiled(tmp_path, code.format(", axis=0")))
    changes = compare(first, other).changes
    words = [str(x) for x in changes if x.part == "collective"]

    assert words[0].startswith("new: 1 all-reduce of f32[16] over model")
    assert words[1].startswith("gone: 1 all-reduce of f32[] over model")
    assert len(words) == 2


def test_the_step_is_told_with_a_helper(tmp_path: Path) -> None:
    """A row has the innermost lines of a deep stack, and the outermost."""
    lines = ["import jax", "def f0(x):", "    return jax.numpy.sum(x)"]
    for depth in range(1, 6):
        lines += [f"def f{depth}(x):", f"    return f{depth - 1}(x)"]
    code = "\n".join([*lines, "step = f5"])
    row = record_of(compiled(tmp_path, code))["collectives"][0]

    numbers = re.findall(r"moved\.py:(\d+)|(\.{3})", row["at"])
    assert [number or sign for number, sign in numbers] == [
        *("3", "5", "...", "11", "13")
    ]


def test_a_helper_is_told_with_its_caller() -> None:
    """A row has the line of a helper, and the line that called it."""
    rows = record_of(step_of())["collectives"]
    callers = {row["caller"] for row in rows if row.get("line")}

    assert 'hidden = jax.nn.gelu(matmul(x, weights["up"]))' in callers
    assert {row["function"] for row in rows if row.get("line")} == {
        matmul.__name__
    }


def test_a_program_without_arguments(unbroken: Program) -> None:
    """What a program doesn't know is said, and not compared."""
    text = "Arguments and transfers are not compared"
    known = program(jnp.sin, jnp.ones(8))
    lowered = program(jax.jit(jnp.sin).lower(jnp.ones(8)))

    assert not lowered - known
    assert text in repr(lowered - known)
    assert text not in repr(known - known)
    with pytest.raises(TypeError):
        known - 3  # type: ignore[operator]


def test_arguments_have_other_names_in_a_lowered_program() -> None:
    """The same collectives are the same, whatever their arguments are."""

    @nnx.jit
    def step(model: nnx.Linear) -> jax.Array:
        whole = NamedSharding(MESH, P())
        kernel = model.kernel[...]
        return jax.lax.with_sharding_constraint(kernel, whole)

    model = nnx.Linear(64, 256, use_bias=False, rngs=nnx.Rngs(0))
    split = NamedSharding(MESH, P("data", "model"))
    model.kernel.set_value(jax.device_put(model.kernel[...], split))
    known = program(step, model)
    lowered = program(step.lower(model))

    # nnx.jit numbers the arrays of a Module, and XLA notes the numbers.
    names = known.communication[0].arguments
    assert names == ("model.kernel",)
    assert names != lowered.communication[0].arguments
    assert not lowered - known


def test_a_long_difference_is_cut() -> None:
    """The costliest changes are shown, and the others counted."""
    arrays = {
        f"x{number}y": {"type": "t", "spec": [], "bytes": number}
        for number in range(SHOWN + 5)
    }
    memory = Change("grown", "memory", "memory, 1 -> 2 bytes", 1)
    changes = changes_of_arrays({}, arrays)
    seen = Difference.of([memory, *changes])
    total, *lines, last = repr(seen).splitlines()

    assert len(lines) == SHOWN - 1
    assert lines[0].startswith(f"new: x{SHOWN + 4}y, ")
    assert (total, last) == (str(memory), "and 6 more")
    assert "and 6 more" in seen._repr_html_()
    assert seen._repr_html_().count("<tr>") == SHOWN + 1
    assert "No difference." in Difference.of(())._repr_html_()
