"""Checks compare with the solution, here of a problem made for tests."""

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import book, inputs
from shardgrade import checks
from shardgrade.grading import differences, measures, same
from shardgrade.grading.agreement import AtMost, Limited, Near
from shardgrade.grading.attempt import (
    Attempt,
    Crashed,
    Wrong,
    arguments,
    pasteable,
)
from shardgrade.grading.cases import Case, compiled_programs, observe
from shardgrade.grading.verdict import Verdict
from shardgrade.jobs import run
from shardgrade.jobs.job import Job
from shardscope import draw

SCALE = 1.0


def scaled(x: jax.Array, *, by: int = 2) -> jax.Array:
    """Return x, times a factor, times what a case alters."""
    return x * by * SCALE


@pytest.fixture
def problem(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give a function that makes another function the solution."""

    def make(solution: Callable[..., Any], *checks: same.Check) -> None:
        problem, rules = ModuleType("problem"), ModuleType("rules")
        problem.__file__ = __file__
        problem.toy = solution  # type: ignore[attr-defined]
        rules.CHECKS = same.numbered("toy")(checks)  # type: ignore[attr-defined]
        rules.EXAMPLE = "toy(normal(4))"  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "shardbook.problems.toy", problem)
        monkeypatch.setitem(sys.modules, "shardgrade.checks.toy", rules)
        run.solution.cache_clear()

    return make


def fails(check: same.Check, function: Callable[..., Any]) -> Wrong | None:
    """Run a check on a function, and give what is wrong with it."""
    attempt = Attempt("toy", function, __file__, {})
    try:
        for case in check.cases:
            check.run(attempt, case)
    except Wrong as error:
        return error
    return None


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ("toy(normal(3), by=3)", lambda x, by: x * by),
        ("toy(mesh_of(1, 1))", lambda mesh: mesh),
        ("toy({'a': [normal(2), 1]})", lambda tree: tree),
        ("toy(2)(normal(3))", lambda n: lambda x: n * x),
        ("toy(normal(2, 3))", lambda x: nnx.Linear(3, 4, rngs=nnx.Rngs(0))),
    ],
    ids=["keyword", "mesh", "tree", "step", "Module"],
)
def test_calls_of_any_signature_are_compared(
    problem: Callable[..., None], call: str, result: Callable[..., Any]
) -> None:
    """Arrays, trees, meshes, Modules and steps agree with themselves."""
    problem(result)
    checks = [
        same.types(call),
        same.values(call, measures.result, "other values"),
        same.placement(call, measures.shards, "another layout"),
    ]

    assert [fails(check, result) for check in checks] == [None] * 3


@pytest.mark.parametrize(
    ("of", "wrong"),
    [
        (measures.types, lambda x: x.astype(jnp.bfloat16)),
        (measures.types, lambda x: (x,)),
        (measures.result, lambda x: x + 1),
        (measures.shards, lambda x: jax.device_put(x, jax.devices()[-1])),
        (measures.shards, lambda x: jax.device_get(x)),
    ],
    ids=["dtype", "structure", "values", "device", "host"],
)
def test_a_difference_is_reported(
    problem: Callable[..., None], of: Any, wrong: Callable[..., Any]
) -> None:
    """A difference is reported with its reason, section and both sides."""
    problem(lambda x: x)

    error = fails(
        same.declare("any", "toy(normal(4))", of, "why", read="read"), wrong
    )

    assert error
    assert (error.why, error.read) == ("why", "read")
    assert error.got != error.expected


def test_the_leaf_that_differs_is_shown(
    problem: Callable[..., None],
) -> None:
    """Of two trees, the verdict shows the first leaves that differ."""
    problem(lambda n: {"same": jnp.ones(2), "other": jnp.full(2, n)})
    check = same.values("toy(3)", measures.result, "why")

    error = fails(check, lambda n: {"same": jnp.ones(2), "other": 2})

    assert error
    assert error.got == "['other'] 2"
    assert error.expected.startswith("['other'] int32[2] [3 3]")


def test_what_is_altered_is_altered_for_both(
    problem: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A case that alters its surroundings alters the solution's too."""

    @contextmanager
    def altered() -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules[__name__], "SCALE", 5.0)
            yield

    problem(scaled)
    case = Case("toy(normal(4))", "where SCALE is 5", altered)
    check = same.values(case, measures.result, "why")

    assert fails(check, scaled) is None
    assert fails(check, lambda x: 2 * x)


def test_a_shape_is_no_array(problem: Callable[..., None]) -> None:
    """An abstract array has no values that could agree."""
    problem(lambda x: {"x": x})
    check = same.values("toy(normal(4))", measures.result, "why")

    error = fails(check, lambda x: {"x": jax.eval_shape(lambda: x)})

    assert error
    assert error.got.startswith("['x'] ShapeDtypeStruct(shape=(4,)")


def summing_step(mesh: Mesh) -> Callable[[jax.Array], jax.Array]:
    """Return a step that sums over the devices."""
    whole = NamedSharding(mesh, P())
    rows = NamedSharding(mesh, P("data"))
    return jax.jit(jnp.sum, in_shardings=rows, out_shardings=whole)


def local_step(mesh: Mesh) -> Callable[[jax.Array], jax.Array]:
    """Return a step that needs no communication."""
    rows = NamedSharding(mesh, P("data"))
    return jax.jit(jnp.sin, in_shardings=rows, out_shardings=rows)


@pytest.mark.parametrize(
    "of", [measures.collectives, measures.step_collectives]
)
def test_a_step_is_compiled_and_compared(
    problem: Callable[..., None], of: Any
) -> None:
    """The collectives of a returned step are compared, and have axes."""
    problem(summing_step)
    case = Case("toy(mesh_of(8, 1))", step="normal(8, 4)")
    talk = same.communication(case, of, "why")

    assert fails(talk, summing_step) is None
    error = fails(talk, local_step)
    assert error
    assert (error.got, error.expected) == ("none", "1 all-reduce")
    attempt = Attempt("toy", summing_step, __file__, {})
    (step,) = compiled_programs(attempt, case)
    # Eight devices add numbers of four bytes in a ring.
    assert step.sent("data") == 7


def test_a_step_that_raises_is_reported_as_such(
    problem: Callable[..., None],
) -> None:
    """What a step raises as it is compiled is an error of the attempt."""
    problem(summing_step)
    case = Case("toy(mesh_of(8, 1))", step="normal(8, 4)")
    check = same.communication(case, measures.collectives, "why")
    attempt = Attempt("toy", lambda mesh: lambda x: x @ x, __file__, {})

    with pytest.raises(Crashed, match="dot_general requires"):
        check.run(attempt, *check.cases)

    assert attempt.call.endswith("\ntoy(mesh_of(8, 1))(normal(8, 4))")


def test_a_call_in_a_verdict_runs_when_pasted() -> None:
    """The call comes with the import of the names in it."""
    code = pasteable("toy(mesh_of(2, 4), x=normal(2, seed=1))")
    names: dict[str, Any] = {"toy": lambda mesh, x: (mesh.shape, x.shape)}

    exec(code.replace("toy(", "result = toy("), names)

    assert names["result"] == ({"data": 2, "model": 4}, (2,))
    assert pasteable("toy(1)") == "toy(1)"


def test_arguments_are_made_anew_for_each_call() -> None:
    """Two calls share no argument, so that one can donate it."""
    (((first,), _),), (((second,), _),) = (
        arguments("toy(normal(3))") for _ in range(2)
    )

    assert first is not second


def test_a_mesh_that_is_too_large_says_what_to_do() -> None:
    """A mesh of more devices than there are names the setting."""
    with pytest.raises(ValueError, match=r"jax_num_cpu_devices\", 400"):
        inputs.mesh_of(100, 4)


def test_a_check_that_could_not_run_is_never_right(
    problem: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Without a private part of jax, the verdict names what did not run."""
    call = "toy(normal(4))"
    problem(
        scaled,
        same.values(call, measures.result, "why"),
        same.communication(call, measures.collectives, "why"),
    )
    (tmp_path / "toy.md").write_text("---\ntime: 1 minute\n---\n# Toy\n")
    monkeypatch.setattr(book, "FOLDERS", (*book.FOLDERS, tmp_path))
    path = tmp_path / "toy.py"
    path.write_text("def toy(x):\n    return 2 * x\n")
    job = Job("toy", "toy.py", path)
    right = job()
    run.solution.cache_clear()
    monkeypatch.delattr("jax._src.compiler.compile_or_get_cached")

    verdict = job()

    assert isinstance(right, Verdict)
    assert isinstance(verdict, Verdict)
    assert right.right
    assert verdict.status == "incomplete"
    assert verdict.not_run == ("communication", "comparison")
    assert "compile_or_get_cached" in verdict.why


def halved(x: jax.Array) -> jax.Array:
    """Return the first half of an array of an even length."""
    if x.size % 2:
        raise ValueError(f"2 does not divide {x.size}")
    return x[: x.size // 2]


def refuses_by_type(x: jax.Array) -> jax.Array:
    """Refuse in the same words, by another class."""
    if x.size % 2:
        raise TypeError(f"2 does not divide {x.size}")
    return x[: x.size // 2]


def refuses_in_silence(x: jax.Array) -> jax.Array:
    """Refuse by the same class, without a word."""
    if x.size % 2:
        raise ValueError
    return x[: x.size // 2]


@pytest.mark.parametrize(
    ("function", "got"),
    [
        (lambda x: x[: x.size // 2], "no error, but float32[1]"),
        (refuses_by_type, "TypeError: 2 does not divide 3"),
        (refuses_in_silence, "ValueError:"),
    ],
)
def test_an_error_is_an_answer(
    problem: Callable[..., None], function: Callable[..., Any], got: str
) -> None:
    """What must be refused is refused by its class, and in words."""
    problem(halved)
    case = Case("toy(normal(3))", under=measures.note_errors)
    check = same.contract(case, measures.refusal("2", "3"), "why")

    assert fails(check, halved) is None
    wrong = fails(check, function)
    assert wrong is not None
    assert wrong.got.startswith(got)
    assert wrong.expected == "a ValueError that names 2, 3"


def test_random_keys_are_compared(problem: Callable[..., None]) -> None:
    """Random keys, alone or in an array, agree if their numbers do."""

    def keys(x: jax.Array, seed: int = 7) -> dict[str, jax.Array]:
        key = jax.random.key(seed)
        return {"key": key, "keys": jax.random.split(key)}

    problem(keys)
    check = same.values("toy(normal(3))", measures.result, "why")

    assert fails(check, keys) is None
    wrong = fails(check, lambda x: keys(x, 8))
    assert wrong is not None
    assert wrong.got == "['key'] key<fry>[] [0 8]"
    assert wrong.expected == "['key'] key<fry>[] [0 7]"
    assert differences.show_number(jax.random.key(7)) == "[0, 7]"


def test_a_copy_between_devices_is_seen(
    problem: Callable[..., None],
) -> None:
    """What comes from the host is no copy; what is on a device is one."""

    def laid_out(batch: Any, mesh: Mesh) -> Any:
        return jax.device_put(batch, NamedSharding(mesh, P("data")))

    def first_on_one(batch: Any, mesh: Mesh) -> Any:
        return laid_out(jax.tree.map(jnp.asarray, batch), mesh)

    def fails_in_words(batch: Any, mesh: Mesh) -> Any:
        raise TypeError("no batch")

    problem(laid_out)
    call = "toy(numpy_batch(8, 2), mesh_of(8, 1))"
    case = Case(call, under=measures.note_copies)
    check = same.placement(case, measures.describe_copies, "why")

    assert fails(check, laid_out) is None
    wrong = fails(check, first_on_one)
    assert wrong is not None
    assert wrong.got == "a copy from one device to another"
    with pytest.raises(Crashed, match="TypeError: no batch"):
        fails(check, fails_in_words)


def test_a_refused_call_may_print(
    problem: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed with an error is not shown, text or bytes."""

    def printing(x: jax.Array) -> jax.Array:
        print("toy.py:7:4 (toy)")
        sys.stdout.buffer.write(b"bytes")
        os.write(sys.stdout.fileno(), b"")
        return halved(x)

    problem(halved)
    case = Case("toy(normal(3))", under=measures.note_errors)
    check = same.contract(case, measures.refusal(), "why")

    assert fails(check, printing) is None
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("beside", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("off", "where"),
    [(0.001, ""), (0.1, "['y'] float32[3] on cpu:1")],
    ids=["rounding", "another number"],
)
def test_copies_are_compared_beside_what_is_not_finite(
    beside: float, off: float, where: str
) -> None:
    """Copies agree up to rounding, and no further, beside a NaN or inf."""
    devices = jax.devices()[:2]
    whole = NamedSharding(Mesh(devices, "data"), P())
    copies = [np.float32([1 + n * off, 0, beside]) for n in range(2)]
    parts = [*map(jax.device_put, copies, devices)]
    y = jax.make_array_from_single_device_arrays((3,), whole, parts)

    with warnings.catch_warnings(action="error"):
        assert differences.copies_apart({"y": y}) == where


def test_who_holds_what_is_told_as_a_drawing_tells_it() -> None:
    """A measure and a drawing have the same lines on the shards."""
    mesh = jax.make_mesh((2, 4), ("data", "model"))
    sharding = NamedSharding(mesh, P("model", unreduced={"data"}))
    array = jax.ShapeDtypeStruct((8, 3), jnp.float32, sharding=sharding)
    _, *drawn = repr(draw(array)).splitlines()

    assert drawn[0].endswith("[0:2, 0:3], unreduced: 2 different values")
    words = measures.describe_shards(array)
    assert words.splitlines() == ["float32[8,3]", *drawn]
    shape = jax.eval_shape(lambda: jnp.ones(4))
    words = measures.describe_shards(shape)
    assert words == "float32[4], on no device"


State = dict[str, jax.Array]


def counting() -> Callable[[State, jax.Array], jax.Array]:
    """Return a step that adds x to a total, which it donates."""
    add = jax.jit(lambda total, x: total + x.sum(), donate_argnums=0)

    def step(state: State, x: jax.Array) -> jax.Array:
        state["total"] = add(state["total"], x)
        return x.sum()

    return step


def makes_step(factor: int) -> Callable[[jax.Array], jax.Array]:
    """Return a step that adds up a sharded array, and donates another."""

    def step(x: jax.Array) -> jax.Array:
        total = factor * x.sum()
        spread = NamedSharding(inputs.mesh_of(2, 1), P("data"))
        x = jax.device_put(x, spread)
        moved = jax.jit(lambda x: x + total, donate_argnums=0)(x)
        return jax.jit(lambda x: x.sum())(moved)

    return step


def forgetting() -> Callable[[State, jax.Array], jax.Array]:
    """Return a step that does not keep the new total."""
    step = counting()
    return lambda state, x: step({"total": state["total"] + 0}, x)


def losing() -> Callable[[State, jax.Array], jax.Array]:
    """Return a step that donates the total, and does not replace it."""
    step = counting()
    return lambda state, x: step(dict(state), x)


def keeping() -> Callable[[State, jax.Array], jax.Array]:
    """Return a step that donates a copy of the total."""
    step = counting()

    def copied(state: State, x: jax.Array) -> jax.Array:
        state["total"] = state["total"] + 0
        return step(state, x)

    return copied


def drifting() -> Callable[[State, jax.Array], jax.Array]:
    """Return a step that puts the total on another device."""
    step = counting()

    def moved(state: State, x: jax.Array) -> jax.Array:
        result = step(state, x)
        state["total"] = jax.device_put(state["total"], jax.devices()[0])
        return result

    return moved


def compiling() -> Callable[[State, jax.Array], jax.Array]:
    """Return a step that compiles in each call."""
    return lambda state, x: counting()(state, x)


@pytest.mark.parametrize(
    ("of", "function", "got", "expected"),
    [
        (measures.step_results, lambda: lambda _, x: x, "", ""),
        (measures.step_arguments, forgetting, "", ""),
        (measures.step_arguments, losing, "deleted: 0.total", "no array"),
        (measures.step_shards, drifting, "device 0", "device 7"),
        (measures.step_kept("0"), keeping, "devices: 0.total", "nothing"),
        (measures.step_compilations, compiling, "2 more", "nothing more"),
    ],
)
def test_a_step_is_called_again_and_again(
    problem: Callable[..., None],
    of: Any,
    function: Callable[..., Any],
    got: str,
    expected: str,
) -> None:
    """A step is run, and what it did to its arguments is compared."""
    problem(counting)
    step = "{'total': committed(normal())}, normal(4)"
    check = same.declare("any", Case("toy()", step=step), of, "why")

    assert fails(check, counting) is None
    wrong = fails(check, function)
    assert wrong is not None
    assert got in wrong.got
    assert expected in wrong.expected


@pytest.mark.parametrize(
    ("result", "got"),
    [
        (lambda last: {str(i): "same" for i in range(9)} | {"9": last}, ""),
        (lambda last: "\n".join(["same"] * 9 + [last]), "...\n"),
    ],
    ids=["entries", "lines"],
)
def test_of_much_only_what_differs_is_shown(
    problem: Callable[..., None], result: Callable[..., Any], got: str
) -> None:
    """Of many entries or lines, those that are alike are left out."""
    problem(lambda: result("ours"))
    check = same.declare("any", "toy()", measures.result, "why")

    error = fails(check, lambda: result("yours"))

    assert error is not None
    assert "same" not in error.got + error.expected
    assert error.got.startswith(got)
    assert "yours" in error.got
    assert "ours" in error.expected


def test_what_a_returned_step_sends() -> None:
    """The bytes of a step are those of all programs that it compiles."""
    attempt = Attempt("toy", makes_step, __file__, {})
    case = Case("toy(2)(normal(16))", programs=True)
    seen = observe(attempt, case)

    # Two devices add two numbers of four bytes in a ring.
    words = "all-reduce among 2 devices: 4 bytes"
    assert measures.sent_by_kind("all-reduce")(seen) == words
    assert measures.sent_by_kind("all-gather")(seen) == "none"

    alone = observe(attempt, Case("toy(2)", programs=True))

    assert measures.sent_by_kind("")(alone) == "none"


def test_the_table_of_measures_has_each_of_them() -> None:
    """A contributor finds each measure in the README of the checks."""
    text = Path(str(checks.__file__)).with_name("README.md").read_text()
    table = "".join(re.findall(r"^\|.*", text, re.M))
    # Those of same.refusal.
    every = {
        name for name, each in vars(measures).items() if callable(each)
    }
    every -= {"refusal", "note_errors"}

    assert every <= {*re.findall(r"\w+", table)}


def test_a_limit_of_the_page_is_not_the_solutions(
    problem: Callable[..., None],
) -> None:
    """What has a limit of its own is compared with the limit alone."""
    problem(lambda n: 0)
    check = same.placement(
        "toy(2)",
        lambda seen: Limited(seen.result, 3000, "bytes"),
        "why",
    )

    error = fails(check, lambda n: 1500 * n + 1)

    assert fails(check, lambda n: 1500 * n) is None
    assert error
    assert (error.got, error.expected) == (
        "3,001 bytes",
        "at most 3,000 bytes",
    )


def test_a_limit_is_written_with_its_unit(
    problem: Callable[..., None],
) -> None:
    """What is above a limit is shown with the limit and the unit."""
    problem(lambda n: 1000 * n)
    limit = AtMost(1.5, "bytes of memory on a device")
    check = same.placement("toy(2)", measures.result, "why", agree=limit)

    error = fails(check, lambda n: 3001)

    assert fails(check, lambda n: 3000) is None
    assert error
    assert error.got == "3,001 bytes of memory on a device"
    assert error.expected == "at most 3,000 bytes of memory on a device"


def test_what_is_farthest_over_its_limit_is_shown(
    problem: Callable[..., None],
) -> None:
    """Of rounded arrays, what is within the limit isn't counted."""
    problem(lambda n: {"a": jnp.ones(20), "b": 100.0 * jnp.arange(n)})
    check = same.values(
        "toy(20)", measures.result, "why", agree=Near([0.1])
    )

    def off(n: int) -> dict[str, jax.Array]:
        by = (
            jnp.zeros(20)
            .at[jnp.array([2, 5, 7])]
            .set(jnp.array([150.0, 200.0, 250.0]))
        )
        return {"a": jnp.ones(20) + 0.05, "b": 100.0 * jnp.arange(n) + by}

    error = fails(check, off)

    assert error
    assert error.got == (
        "['b'] float32[20] at [7]: 950 (2 of 20 entries are too far off)"
    )
    assert error.expected == "['b'] float32[20] at [7]: 700"
