"""What program() and collectives() report of a compiled call."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax.experimental.compilation_cache import compilation_cache
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
from strategies import MESHES

from shardscope import BudgetExceeded, Memory, Program, collectives, program
from shardscope.hlo import Module

EIGHT, GRID = MESHES[:2]
AUTO = AxisType.Auto
ONE_COLUMN = jax.make_mesh((8, 1), ("data", "model"), (AUTO, AUTO))
ONE_DEVICE = jax.make_mesh(
    (1,), ("model",), (AUTO,), devices=jax.devices()[:1]
)


def place(x: Any, mesh: Mesh, *spec: Any) -> jax.Array:
    """Place an array on a mesh."""
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


def rotate(x: jax.Array, axis: Any) -> jax.Array:
    """Send each block to the next device."""
    size = jax.lax.axis_size(axis)
    pairs = [(i, (i + 1) % size) for i in range(size)]
    return jax.lax.ppermute(x, axis, pairs)


KINDS: dict[str, Callable[[jax.Array, Any], jax.Array]] = {
    "all-gather": lambda x, axis: jax.lax.all_gather(x, axis, tiled=True),
    "all-reduce": jax.lax.psum,
    "all-to-all": lambda x, axis: jax.lax.all_to_all(x, axis, 0, 1),
    "collective-permute": rotate,
    "reduce-scatter": jax.lax.psum_scatter,
}


@pytest.mark.parametrize(
    ("mesh", "axis"),
    [
        (EIGHT, "model"),
        (GRID, "data"),
        (GRID, "model"),
        (GRID, ("data", "model")),
        (ONE_COLUMN, "model"),
        (ONE_DEVICE, "model"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_collectives_of_each_kind(kind: str, mesh: Mesh, axis: Any) -> None:
    """collectives() counts the one of a shard_map, unless it is alone."""
    size = mesh.size if isinstance(axis, tuple) else mesh.shape[axis]
    function = jax.shard_map(
        lambda x: KINDS[kind](x, axis),
        mesh=mesh,
        in_specs=P(),
        out_specs=P(),
        check_vma=False,
    )
    x = jax.ShapeDtypeStruct((size, size), jnp.float32)

    assert collectives(function, x) == ({kind: 1} if size > 1 else {})


def test_what_is_not_an_array_is_bound() -> None:
    """program() traces arrays, and passes on a mesh, numbers, functions."""

    def apply(
        params: dict[str, Any],
        x: jax.Array,
        mesh: Mesh,
        *,
        n: int,
        act: Any,
    ) -> jax.Array:
        y = act(x @ params["w"] * params["scale"]).reshape(n, -1)
        return jax.lax.with_sharding_constraint(y, NamedSharding(mesh, P()))

    w = place(jnp.ones((16, 16)), GRID, "model")
    params = {"scale": 2.0, "w": w}
    seen = program(apply, params, np.ones((4, 16)), GRID, n=2, act=nnx.relu)

    assert seen.collectives == {"all-reduce": 1}
    assert seen.transfers == {"x": 8 * 4 * 4 * 4}


def test_transfers_of_arguments() -> None:
    """program() lists each array that is not where the call wants it."""
    arrays = {
        "host": np.ones((8, 4)),
        "first": jnp.ones(16),
        "placed": place(jnp.ones((4, 8)), GRID, None, "model"),
        "abstract": jax.ShapeDtypeStruct((8,), jnp.float32),
        "unused": jnp.ones(3),
        "key": jax.random.key(0),
        "number": 2.0,
    }

    def function(x: dict[str, Any]) -> Any:
        key = jax.random.key_data(x["key"]).sum() * x["number"]
        total = x["first"].sum() + x["abstract"].sum() + key
        return x["host"] @ x["placed"] + total

    jitted = jax.jit(
        function,
        in_shardings=(
            {name: NamedSharding(GRID, P()) for name in arrays}
            | {"placed": NamedSharding(GRID, P(None, "model"))},
        ),
    )

    assert program(jitted, arrays).transfers == {
        "x.host": 8 * 8 * 4 * 4,
        # Device 0 holds the whole of these two already.
        "x.first": 7 * 16 * 4,
        "x.key": 7 * 8,
    }


def test_transfers_beside_static_arguments() -> None:
    """program() names arguments as the call does, with what is static."""
    y = place(jnp.ones(8), EIGHT, "model")
    by_number = jax.jit(lambda n, x, mesh, y: x * y, static_argnums=(0, 2))
    by_name = jax.jit(lambda x, n, y: x * y * n, static_argnames="n")

    assert program(by_number, 3, jnp.ones(()), EIGHT, y).transfers == {
        "x": 7 * 4
    }
    assert program(by_name, y=y, n=3, x=np.ones(8)).transfers == {
        "x": 8 * 4
    }


def test_the_names_of_gathered_arguments() -> None:
    """program() numbers what *args gathers; a keyword has its own name."""

    def step(x: jax.Array, *rest: Any, scale: jax.Array) -> jax.Array:
        bias, params = rest
        whole = NamedSharding(EIGHT, P())
        w = jax.lax.with_sharding_constraint(params["w"], whole)
        return scale * (x @ w + bias)

    w = place(jnp.ones((16, 4)), EIGHT, "model")
    x, bias, scale = np.ones((8, 16)), np.ones(4), np.ones(())
    seen = program(step, x, bias, {"w": w}, scale=scale)

    assert seen.argument_bytes == {
        "x": 8 * 16 * 4,
        "rest[0]": 4 * 4,
        "rest[1].w": 2 * 4 * 4,
        "scale": 4,
    }
    assert seen.transfers == {
        "x": 8 * 8 * 16 * 4,
        "rest[0]": 8 * 4 * 4,
        "scale": 8 * 4,
    }
    (gather,) = seen.communication
    assert gather.arguments == ("rest[1].w",)


def test_a_function_without_a_signature() -> None:
    """program() numbers the arguments of what names no parameters."""
    x, y = jnp.ones(8), jnp.ones(1)
    with pytest.raises(ValueError, match="no signature"):
        inspect.signature(dict)

    # Python knows of the one that it takes *args, and nothing of the other.
    assert program(jnp.add, x, y).argument_bytes == {
        "args[0]": 8 * 4,
        "args[1]": 4,
    }
    assert program(dict, [("a", x), ("b", y)], c=y).argument_bytes == {
        "args[0].0.1": 8 * 4,
        "args[0].1.1": 4,
        "c": 4,
    }


def test_a_keyword_that_has_the_name_of_a_position() -> None:
    """program() numbers an argument whose name another one has."""

    def add(x: jax.Array, /, **more: jax.Array) -> jax.Array:
        return x + more["x"]

    assert program(add, jnp.ones(8), x=jnp.ones(1)).argument_bytes == {
        "args[0]": 8 * 4,
        "x": 4,
    }


def test_the_arguments_that_jit_partial_leaves() -> None:
    """program() doesn't give them the names of those that are bound."""
    model = nnx.Linear(8, 8, use_bias=False, rngs=nnx.Rngs(0))
    left = nnx.jit_partial(lambda model, x: model(x), model, graph=False)
    all_of_it = nnx.jit(lambda model, x: model(x), graph=False)
    x = jnp.ones((4, 8))

    assert program(left, x).argument_bytes == {"args[0]": x.nbytes}
    assert program(all_of_it, model, x).argument_bytes == {
        "model.kernel": 8 * 8 * 4,
        "x": x.nbytes,
    }


def test_two_paths_that_would_read_the_same() -> None:
    """program() writes their keys in brackets, if one has a dot in it."""
    w = place(jnp.ones((8, 8)), EIGHT, "model")
    half = place(jnp.ones((8, 4)), EIGHT, "model")
    whole = NamedSharding(EIGHT, P())
    params = {"a": {"b": w, "c": w}, "a.b": half, "d.e": w}
    seen = program(
        lambda params: jax.lax.with_sharding_constraint(params, whole),
        params,
    )

    assert seen.argument_bytes == {
        "params['a']['b']": 8 * 4,
        "params.a.c": 8 * 4,
        "params['a.b']": 4 * 4,
        "params.d.e": 8 * 4,
    }
    moved = [path for each in seen.communication for path in each.arguments]
    assert sorted(moved) == sorted(seen.argument_bytes)


def test_a_step_that_updates_a_module() -> None:
    """program() keeps the update of a function that returns nothing."""
    model = nnx.Linear(16, 8, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1, 0.9), wrt=nnx.Param)
    x = place(jnp.ones((8, 16)), EIGHT, "model")

    def step(model: nnx.Linear, optimizer: nnx.Optimizer, x: Any) -> None:
        grads = nnx.grad(lambda model: (model(x) ** 2).mean())(model)
        optimizer.update(model, grads)

    donating = nnx.jit(step, donate_argnums=(0, 1))
    seen = program(step, model, optimizer, x=x)
    again = program(donating, model, optimizer, x)

    assert seen.collectives == again.collectives == {"all-reduce": 1}
    assert seen.transfers == again.transfers
    assert seen.transfers["model.kernel"] == 7 * 16 * 8 * 4
    assert "optimizer.opt_state.0.trace.bias" in seen.transfers
    assert seen.memory.donated == 0
    assert again.memory.donated >= 2 * (16 * 8 + 8) * 4


def test_a_module_in_place_of_a_function() -> None:
    """program() refuses a Module, whose arrays would be constants."""
    model = nnx.Linear(2, 2, rngs=nnx.Rngs(0))

    for function in (model, model.__call__):
        with pytest.raises(TypeError, match="takes its Module as an arg"):
            program(function, jnp.ones((1, 2)))


def test_a_module_that_holds_a_layer_twice() -> None:
    """program() lists a shared Variable once, under its first path."""

    class Tied(nnx.Module):
        def __init__(self) -> None:
            self.first = nnx.Linear(4, 4, use_bias=False, rngs=nnx.Rngs(0))
            self.second = self.first

        def __call__(self, x: jax.Array) -> jax.Array:
            return self.second(self.first(x))

    x = place(jnp.ones((8, 4)), EIGHT, "model")

    def apply(model: Tied, x: jax.Array) -> jax.Array:
        return model(x)

    for function in (apply, jax.jit(apply), nnx.jit(apply)):
        copies = program(function, Tied(), x).transfers
        assert copies == {"model.first.kernel": 7 * 4 * 4 * 4}


def test_memory_is_that_of_one_device() -> None:
    """program() adds the temporaries up, and takes off what is donated."""
    x = place(jnp.ones((64, 64)), EIGHT, "model")
    compiled = (
        jax.jit(lambda x: x @ x.T, donate_argnums=0).lower(x).compile()
    )
    stats = compiled.memory_analysis()
    memory = Program.of(compiled.as_text(), stats).memory

    assert memory.arguments == memory.results == 64 * 64 * 4 // 8
    assert memory.donated == memory.results
    assert memory.temporaries >= 64 * 64 * 4
    assert memory.total == memory.arguments + memory.temporaries
    # jax 0.12 has it, and adds the pointers to several results.
    total = getattr(stats, "total_allocation_bytes", memory.total)
    assert 0 <= total - memory.total < 100


# Random, because XLA makes ones by a broadcast, and folds what it knows.
RANDOM = np.random.default_rng(0).normal(size=(256, 512))
KERNEL = RANDOM.astype(np.float32)


def by_a_matrix(kernel: Any, x: jax.Array) -> jax.Array:
    """Multiply x by a matrix."""
    return x @ kernel


def by_a_module(kernel: Any, x: jax.Array) -> jax.Array:
    """Call a Module that has the matrix."""
    linear = nnx.Linear(256, 512, use_bias=False, rngs=nnx.Rngs(0))
    linear.kernel.set_value(kernel)
    y: jax.Array = linear(x)
    return y


def by_layers(kernel: Any, x: jax.Array) -> jax.Array:
    """Scan over two halves of the matrix."""

    def layer(x: jax.Array, half: jax.Array) -> tuple[jax.Array, None]:
        return jnp.tanh(x @ half), None

    halves = jnp.stack((kernel[:, :256], kernel[:, 256:]))
    return jax.lax.scan(layer, x, halves)[0]


@pytest.mark.parametrize("made", ["by JAX", "by NumPy"])
@pytest.mark.parametrize("function", [by_a_matrix, by_a_module, by_layers])
def test_captured_arrays(function: Callable[..., Any], made: str) -> None:
    """What a function captures is in the memory, and has its line."""
    kernel: Any = KERNEL
    if made == "by JAX":
        kernel = place(KERNEL, EIGHT, None, "model")
    x = place(jnp.ones((16, 256)), EIGHT, "model")
    # As people write it, with a Module for example.
    jitted = jax.jit(lambda x: function(kernel, x))
    seen = program(jitted, x)
    passed = program(jax.jit(function), kernel, x)
    stats = jitted.lower(x).compile().memory_analysis()

    assert [each.bytes for each in seen.constants] == [KERNEL.nbytes]
    assert seen.memory.constants == KERNEL.nbytes
    assert f", {Path(__file__).name}:" in repr(seen.constants[0])
    assert seen.memory.total > KERNEL.nbytes + seen.memory.arguments
    # jax 0.12 has it, and counts numbers and pointers, too.
    total = getattr(stats, "total_allocation_bytes", seen.memory.total)
    assert 0 <= total - seen.memory.total < 100
    assert abs(seen.peak.difference) < 0.01
    assert seen.peak.arrays[0].what == "constant"
    rows = [line for line in repr(seen).splitlines() if "524,288" in line]
    assert "constants, whole on each device" in rows[0]
    assert "f32[" in rows[1]
    assert f"{Path(__file__).name}:" in rows[1]
    with pytest.raises(BudgetExceeded):
        seen.within(memory=KERNEL.nbytes)
    details = [each.details for each in (seen - passed).changes]
    assert "constants 0 -> 524,288" in "\n".join(details)
    assert passed.constants == ()
    assert "constants" not in repr(passed)


def test_constants_of_a_scan_are_there_once() -> None:
    """What goes into a loop has the line of the loop."""
    x = jnp.ones((16, 256))

    def function(x: jax.Array) -> jax.Array:
        square = KERNEL @ KERNEL.T
        return jax.lax.fori_loop(0, 9, lambda i, y: y @ square, x)

    seen = program(function, x)
    line = function.__code__.co_firstlineno + 1

    (constant,) = seen.constants
    assert constant.array == "f32[256,256]"
    assert constant.line == f"{__file__}:{line + 1}"


def test_small_constants_count_where_they_are_many() -> None:
    """A mask takes less than a table of XLA's, but not fifty of them."""
    draw = np.random.default_rng(0).random
    masks = [draw((32, 32)) > 0.5 for _ in range(50)]

    def masked(x: jax.Array) -> jax.Array:
        for mask in masks:
            x = jnp.where(mask, x, 0.5 * x + 1)
        return x

    assert program(masked, jnp.ones((32, 32))).memory.constants == 51_200


def test_what_a_loop_sends_whose_end_depends_on_data() -> None:
    """The report counts one turn, and says so; a budget is undecided."""
    x = place(jnp.ones((64, 64)), GRID, "data", "model")

    def looped(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(
            lambda x: x[0, 0] < 9, lambda x: x + x.sum(0), x
        )

    seen = program(looped, x)

    row = "\n  in each turn at most 1 all-reduce of f32 over data"
    assert row in repr(seen)
    with pytest.raises(ValueError, match="end depends on data"):
        seen.within(sent={"data": seen.sent("data")})


def test_an_axis_that_the_program_does_not_have() -> None:
    """sent() refuses it, or a misspelled axis would pass as 0 bytes."""
    x = place(jnp.ones((64, 64)), GRID, "data", "model")
    seen = program(lambda x: x.sum(0), x)

    assert seen.sent("data") > seen.sent("model") == 0
    for axes in (("dta",), ("data", "modle")):
        with pytest.raises(ValueError, match=r"mesh axis '(dta|modle)'"):
            seen.sent(*axes)
    with pytest.raises(ValueError, match="this program has no mesh"):
        program(jnp.sum, jnp.ones(3)).sent("data")


MIB = 2**20
# What libtpu 0.0.50 and, without a total, 0.0.42 gave for four v5e:
# arguments, results, temporaries, donated, peak and total, and on the host
# arguments, results, temporaries and donated; then the bytes on the device
# and the host.
STATS = {
    "a product of weights on the host": (
        (4194304, 8388608, 8453120, 0, 29360128, 21004288),
        (8388608, 0, 0, 0),
        (21004288, 8 * MIB),
    ),
    "the same on the device, with a copy in VMEM": (
        (12582912, 8388608, 0, 0, 29360128, 20972032),
        (0, 0, 0, 0),
        (20 * MIB, 0),
    ),
    "a gradient of rematerialized layers": (
        (167772160, 134218240, 1141173248, 0, 1275076096, 1308779520),
        (0, 0, 0, 0),
        (1308779520, 0),
    ),
    "a step that offloads activations and donates weights": (
        (
            167772160,
            134218240,
            1478071296,
            134217728,
            1275082240,
            1343028224,
        ),
        (0, 0, 134217728, 0),
        (1343028224, 128 * MIB),
    ),
    "a product that the host computes": (
        (0, 0, 8517632, 0, 16777728, 50381824),
        (8388608, 8388608, 8388608, 8388608),
        (8517632, 16 * MIB),
    ),
    "the first of these, of an older libtpu": (
        (4194304, 8388608, 8453120, 0, 29360128, None),
        (8388608, 0, 0, 0),
        (21036032, 8 * MIB),
    ),
}


@pytest.mark.parametrize("case", STATS)
def test_memory_of_a_tpu(case: str) -> None:
    """What is on the host or in VMEM is not in the device's memory."""
    device, host, expected = STATS[case]
    names = ("argument", "output", "temp", "alias")
    stats = SimpleNamespace(
        peak_memory_in_bytes=device[4],
        **{
            f"{name}_size_in_bytes": size
            for name, size in zip(names, device[:4], strict=True)
        },
        **{
            f"host_{name}_size_in_bytes": size
            for name, size in zip(names, host, strict=True)
        },
    )
    if device[5] is not None:
        stats.total_allocation_bytes = device[5]
    memory = Memory.of(stats)

    assert (memory.total, memory.host) == expected
    assert memory.arguments == device[0]


def test_the_host_has_rows_of_its_own() -> None:
    """The table of a program keeps the host's memory apart."""
    seen = program(lambda x, y: (x, -y), jnp.ones(8), jnp.ones(1024))
    assert seen.arguments
    one, other = seen.arguments
    seen = replace(
        seen,
        memory=Memory(32, 32, 0, 0, 4096),
        arguments=(one, replace(other, offloaded=True)),
    )
    rows = [" ".join(line.split()) for line in repr(seen).splitlines()]
    at = rows.index("arguments on the host bytes for one device")

    assert rows[at - 1] == "x 32"
    assert rows[at + 1] == "y 4,096"
    assert "on the host, not in the total 4,096" in rows
    assert "total 64" in rows


def test_fusions_whose_memory_is_not_counted() -> None:
    """The table says so where XLA for CPU leaves out memory."""
    x = jnp.ones((256, 256))
    product, other = program(jnp.matmul, x, x), program(jnp.sin, x)
    if "__ynn_fusion" not in product.text:
        pytest.skip("XLA before jax 0.10 makes no such fusions")

    assert "  total, except inside fusions  " in repr(product)
    assert "fusions" not in repr(other)


@pytest.mark.parametrize(
    ("columns", "width"), [(60, 60), (72, 72), (200, 82)]
)
def test_a_program_keeps_the_width(
    columns: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Program is as wide as it needs, and no wider than the terminal."""
    monkeypatch.setenv("COLUMNS", str(columns))
    tree = {"a" * 24: {"long" * 6: {"path" * 6: np.ones(8)}}}
    w = place(jnp.ones(8), EIGHT, "model")
    lines = repr(
        program(lambda t, w: jax.tree.map(lambda x: x @ w, t), tree, w)
    ).splitlines()

    table = [*map(len, lines)][2:]
    assert {*table} == {width}
    assert max(map(len, lines)) == width
    assert lines[-1].split()[-1] == "32"
    assert repr(program(jnp.sin, jnp.ones(1))).count("  none") == 2


def test_many_collectives() -> None:
    """Those that send the least are summed up, and each keeps its start."""
    w = place(jnp.ones(16), EIGHT, "model")
    seen = program(jnp.sum, w)
    (one,) = seen.communication
    lines = [f"/a/long/name/of/a/file{'_' * 60}.py:{n}" for n in range(30)]
    many = replace(
        seen,
        communication=tuple(replace(one, frames=(line,)) for line in lines),
    )
    shown = repr(many).splitlines()
    row = "1 all-reduce of f32 over model"
    rows = [line for line in shown if row in line]

    assert len(rows) == 24
    assert all("py:" in row for row in rows)
    (others,) = (line for line in shown if "6 others" in line)
    assert others.split()[-1] == str(6 * one.sent)
    most = replace(many, communication=many.communication[:25])
    assert repr(most).count(row) == 25


@pytest.mark.skipif(
    jax.__version_info__ < (0, 12), reason="XLA marks no collective there"
)
def test_which_collectives_the_code_asks_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """XLA marks those that it inserts; the others are asked for."""
    monkeypatch.setenv("COLUMNS", "200")

    def step(w: jax.Array, x: jax.Array) -> Any:
        most = jax.shard_map(
            lambda w: jax.lax.pmax(w, "model"),
            mesh=EIGHT,
            in_specs=P("model"),
            out_specs=P(),
        )
        return most(w), jnp.sin(x).astype("int32").sum()

    seen = program(step, *[place(jnp.ones(16), EIGHT, "model")] * 2)
    asked = {each.reduction: each.asked for each in seen.communication}
    shown = " ".join(repr(seen).split())

    assert asked == {"maximum": True, "add": False}
    assert "(maximum) of f32 w over model, asked for, test_" in shown
    assert "1 all-reduce of s32 over model, test_" in shown
    assert "asked for: by your code; the compiler inserted" in shown


def test_what_is_unknown_is_said() -> None:
    """Of what was passed in compiled, the arguments are not known."""
    shown = repr(program(jax.jit(jnp.sin).lower(jnp.ones(4)).compile()))

    assert shown.count("\n  unknown: program() needs a function") == 2


def test_rows_that_read_alike_name_all_arguments() -> None:
    """Collectives of a line differ in what they move, or in how."""

    def step(p: dict[str, jax.Array]) -> Any:
        two = zip((jax.lax.psum, jax.lax.pmax), ("abc", "ade"), strict=True)
        return [do([p[n] for n in names], "model") for do, names in two]

    w = place(jnp.ones((64, 8)), EIGHT, "model")
    spread = jax.shard_map(
        step, mesh=EIGHT, in_specs=P("model"), out_specs=P()
    )
    seen = program(spread, dict.fromkeys("abcde", w))
    most, total = sorted(seen.communication, key=repr)
    paths = ("p.d", "p.e")
    other = replace(total, arguments=(*paths, ""))
    several = replace(total, arguments=(*paths, "p.a"))
    shown = repr(replace(seen, communication=(most, total, other, several)))

    assert "<1 all-reduce (maximum) of p.a and 2 others" in repr(most)
    for what in (
        "all-reduce (maximum) of f32 p.a and 2 others",
        "all-reduce of f32 p.a and 2 others",
        "all-reduce of f32 p.d, p.e and 1 other",
        "all-reduce of f32 p.d, p.e and p.a",
    ):
        assert shown.count(f"  1 {what} over model, ") == 1


def test_arrays_of_repeated_layers_are_one_row() -> None:
    """Many arguments are rolled up as in a layout, the moments apart."""
    moments = {name: [jnp.ones(8)] * 40 for name in ("mu", "nu")}
    layers = [{"kernel": jnp.ones(4), "bias": jnp.ones(2)}] * 3

    def step(state: Any, params: Any, averages: Any = ()) -> Any:
        return jax.tree.map(jnp.sin, (state, params, averages))

    few, many = (
        repr(program(step, *args))
        for args in ((layers, layers[:1]), ((moments,), layers, layers))
    )
    rows = [line.split() for line in many.splitlines()]

    assert "×" not in few
    assert ["state.0.mu.*", "×40", "1,280"] in rows
    assert ["state.0.nu.*", "×40", "1,280"] in rows
    assert ["params.*.kernel", "×3", "48"] in rows
    assert ["averages.*.kernel", "×3", "48"] in rows


def test_gathered_arguments_are_no_layers() -> None:
    """Arrays of several arguments are not rolled up into one row."""
    layers = [{"kernel": jnp.ones(4), "bias": jnp.ones(2)}] * 3
    many = repr(
        program(lambda *trees: jax.tree.map(jnp.sin, trees), layers, layers)
    )
    rows = [line.split() for line in many.splitlines()]

    assert ["trees[0].*.kernel", "×3", "48"] in rows
    assert ["trees[1].*.kernel", "×3", "48"] in rows


def test_what_is_rolled_up_is_counted() -> None:
    """The sum of what is not shown counts arrays, not rows."""
    arrays = {name: [jnp.ones(1)] * 5 for name in "abcdefghijkl"}
    shown = repr(program(lambda tree: jax.tree.map(jnp.sin, tree), arrays))

    assert shown.count(" ×5 ") == 8
    assert ["20", "others", "80"] in [*map(str.split, shown.splitlines())]


def test_lines_of_two_files_of_one_name() -> None:
    """The table of a program names as many folders as tell files apart."""
    seen = program(jnp.sum, place(jnp.ones(16), EIGHT, "model"))
    (one,) = seen.communication
    files = (
        "/home/a/layers/model.py:3",
        "/home/b/layers/model.py:3",
        "/home/b/train.py:3",
        "/home/b/train.py:4",
        "",
    )
    each = tuple(
        replace(one, frames=(file,) if file else ()) for file in files
    )
    shown = repr(replace(seen, communication=(*each, *each)))

    for place_ in (
        "a/layers/model.py:3",
        "b/layers/model.py:3",
        "train.py:3",
        "train.py:4",
    ):
        row = f"  2 all-reduce of f32 over model, {place_}  "
        assert shown.count(row) == 1
    row = "  2 all-reduce of f32 over model, unknown line  "
    assert shown.count(row) == 1
    assert shown.endswith("\nunknown line: the compiler noted none")


def test_a_budget() -> None:
    """within() names what is over, and shows the table."""
    w = place(jnp.ones((64, 16)), GRID, "model")
    seen = program(jnp.matmul, jnp.ones((8, 64)), w)

    assert seen.within(
        collectives={"all-reduce": 1, "all-gather": 3},
        sent={"model": "0.75 KiB", "data": 0, ("data", "model"): 0},
        memory=seen.memory.total,
        transfers="4 KiB",
    )
    for budget, words in (
        ({"collectives": {}}, "all-reduce: 1, expected at most 0"),
        ({"sent": {"model": 767}}, "sent over model: 768 bytes, expected"),
        (
            {"memory": "1 KiB"},
            "memory: 2,560 bytes, expected at most 1,024",
        ),
        ({"transfers": 0}, "transfers: 4,096 bytes, expected at most 0"),
    ):
        with pytest.raises(AssertionError, match=words) as caught:
            seen.within(**budget)
        assert repr(seen) in str(caught.value)


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (
            {"collectives": {"allreduce": 1}},
            "Unknown collective 'allreduce'",
        ),
        (
            {"sent": {"modle": 1}},
            "Unknown mesh axis 'modle'. Known: 'data'",
        ),
        ({"memory": "16 GB"}, "Unknown size '16 GB'"),
        ({"transfers": 0}, "transfers of this program are unknown"),
    ],
)
def test_a_budget_that_cannot_be_kept(
    budget: dict[str, Any], words: str
) -> None:
    """within() refuses names that don't exist and figures it lacks."""
    w = place(jnp.ones((64, 16)), GRID, "model")
    lowered = jax.jit(jnp.matmul).lower(jnp.ones((8, 64)), w)

    with pytest.raises(ValueError, match=words):
        program(lowered.compile()).within(**budget)


def test_a_program_without_a_mesh_has_no_axis() -> None:
    """A budget for an axis says that there is none."""
    seen = program(jnp.sin, 1.0)

    with pytest.raises(
        ValueError, match="'data': this program has no mesh"
    ):
        seen.within(sent={"data": 0})


def branching(x: jax.Array) -> jax.Array:
    """Add over "data" in any case, and over "model" in a branch."""
    total = jax.lax.psum(x, "data")
    return jax.lax.cond(
        x[0, 0] > 0,
        lambda x: jax.lax.psum(jnp.sin(x), "model"),
        lambda x: 2 * x,
        total,
    )


def looping(x: jax.Array) -> jax.Array:
    """Add over "data" in any case, and over "model" in a loop."""
    return jax.lax.while_loop(
        lambda x: x[0, 0] < 9,
        lambda x: jax.lax.psum(jnp.sin(x), "model"),
        jax.lax.psum(x, "data"),
    )


# Of 4 by 2 elements on a device, over two and four devices.
OVER_DATA, OVER_MODEL = 32, 48


@pytest.mark.parametrize(
    ("function", "most", "why"),
    [
        (branching, "to {}", "in a branch that a call may not take"),
        (looping, "or more", "in a loop whose end depends on data"),
    ],
)
def test_a_budget_that_depends_on_data(
    function: Any, most: str, why: str
) -> None:
    """within() decides the other budgets, and names what is open."""
    seen = program(
        jax.shard_map(
            function,
            mesh=GRID,
            in_specs=P("data", "model"),
            out_specs=P("data", "model"),
            check_vma=False,
        ),
        jax.ShapeDtypeStruct((8, 8), jnp.float32),
    )
    times = f"all-reduce: 1 {most.format(2)}, expected at most 1. It dep"
    size = f"sent over model: 0 {most.format(OVER_MODEL)} bytes, expected"
    (row,) = (e for e in seen.communication if e.axes == ("model",))

    assert seen.within(sent={"data": OVER_DATA, ("data", "model"): 0})
    for budget, words in (
        ({"collectives": {"all-reduce": 1}}, times),
        ({"sent": {"model": OVER_MODEL - 1}}, size),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            seen.within(**budget)
        assert str(caught.value).endswith(f"\n  {row!r}: {why}")
    with pytest.raises(BudgetExceeded, match="sent over data: 32") as over:
        seen.within(sent={"data": OVER_DATA - 1, "model": 0})
    assert size in str(over.value)
    with pytest.raises(BudgetExceeded, match="all-reduce: 1 "):
        seen.within(collectives={})


def test_a_budget_above_all_branches() -> None:
    """within() lets pass what even the longest way keeps."""
    function = jax.shard_map(
        branching,
        mesh=GRID,
        in_specs=P("data", "model"),
        out_specs=P("data", "model"),
        check_vma=False,
    )
    seen = program(function, jax.ShapeDtypeStruct((8, 8), jnp.float32))

    assert seen.within(
        collectives={"all-reduce": 2}, sent={"model": OVER_MODEL}
    )


def test_a_budget_between_two_equal_branches() -> None:
    """within() adds up all branches, although each call takes one."""

    def local(x: jax.Array) -> jax.Array:
        return jax.lax.cond(
            x[0] > 0,
            lambda x: jax.lax.psum(jnp.sin(x), "model"),
            lambda x: jax.lax.psum(jnp.cos(x), "model"),
            x,
        )

    function = jax.shard_map(
        local,
        mesh=EIGHT,
        in_specs=P("model"),
        out_specs=P("model"),
        check_vma=False,
    )
    seen = program(function, jax.ShapeDtypeStruct((64,), jnp.float32))

    # Of 8 elements on a device, over eight devices.
    assert seen.sent("model") == 2 * (2 * 32 * 7 // 8)
    assert seen.within(collectives={"all-reduce": 2})
    for budget in ({}, {"all-reduce": 1}):
        with pytest.raises(ValueError, match="all-reduce: 0 to 2, expec"):
            seen.within(collectives=budget)


def test_a_budget_for_what_data_sizes() -> None:
    """within() knows the count of a ragged-all-to-all, not its bytes."""
    seen = program(lambda x: x.sum(0), place(jnp.ones(8), EIGHT, "model"))
    (one,) = seen.communication
    ragged = replace(one, kind="ragged-all-to-all", sent=4096)
    seen = replace(seen, communication=(ragged,))

    assert seen.within(
        collectives={"ragged-all-to-all": 1}, sent={"model": "4 KiB"}
    )
    with pytest.raises(ValueError, match="how much it sends depends on da"):
        seen.within(sent={"model": 4095})
    with pytest.raises(BudgetExceeded, match="ragged-all-to-all: 1, exp"):
        seen.within(collectives={})


def test_a_budget_for_an_axis_of_which_a_part_is_used() -> None:
    """within() counts groups within a part of an axis as over this axis."""
    seen = program(
        lambda x: x.sum(0), place(jnp.ones((8, 8)), GRID, "model")
    )
    (one,) = seen.communication
    seen = replace(seen, communication=(one, replace(one, subgroup=True)))
    rows = repr(seen)

    assert seen.sent("model") == 2 * one.sent
    assert seen.within(sent={"model": 2 * one.sent, "data": 0})
    with pytest.raises(BudgetExceeded, match="sent over model"):
        seen.within(sent={"model": 2 * one.sent - 1})
    assert "1 all-reduce of f32 over model, " in rows
    assert "1 all-reduce of f32 over part of model, " in rows


def test_a_budget_for_an_axis_that_is_not_known() -> None:
    """within() can't say what groups of other devices send over an axis."""
    x = place(jnp.ones((8, 8)), EIGHT, "model")
    seen = program(lambda x: x.sum(0), x)
    (found,) = seen.communication
    other = replace(seen, communication=(replace(found, axes=()),))

    assert seen.within(sent={"model": 64})
    with pytest.raises(ValueError, match="not over the axes of a mesh"):
        other.within(sent={"model": 0})


def test_unknown_transfers_hide_nothing() -> None:
    """within() tells a budget that is exceeded before one it can't see."""
    x = place(jnp.ones((8, 8)), EIGHT, "model")
    seen = program(jax.jit(lambda x: x.sum(0)).lower(x))

    with pytest.raises(BudgetExceeded, match="all-reduce: 1, ") as caught:
        seen.within(collectives={}, transfers=0)
    assert "transfers of this program are unknown" in str(caught.value)


def test_two_meshes() -> None:
    """program() reads the meshes of arguments and of a shard_map."""
    tall = jax.make_mesh((4, 2), ("p", "q"), (AUTO, AUTO))
    line = jax.make_mesh((8,), ("z",), (AUTO,))

    def function(x: jax.Array, y: jax.Array) -> Any:
        z = jax.shard_map(
            lambda x: jax.lax.psum(x, "z"),
            mesh=line,
            in_specs=P("z"),
            out_specs=P(),
        )(jnp.sin(x))
        return x.sum(0), y.sum(0), z.sum()

    x = place(jnp.ones((64, 64)), GRID, "data")
    y = place(jnp.ones((64, 64)), tall, "p")
    seen = program(function, x, y)
    found = {each.axes: each for each in seen.communication}

    assert dict(seen.axes) == {
        "data": 2,
        "model": 4,
        "p": 4,
        "q": 2,
        "z": 8,
    }
    assert found.keys() == {("data",), ("p",), ("data", "model")}
    assert found["data", "model"].aliases == (("p", "q"), ("z",))
    assert seen.sent("z") == seen.sent("data", "model") > 0
    assert seen.within(sent={"z": seen.sent("z"), "q": 0})
    with pytest.raises(BudgetExceeded, match="sent over z"):
        seen.within(sent={"z": 0})
    assert "over data and model, or p and q, or z, " in repr(
        found["data", "model"]
    )


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    """A folder where jax keeps each program that it compiles."""
    settings = {
        "jax_compilation_cache_dir": str(tmp_path),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_compilation_cache_include_metadata_in_key": False,
    }
    before = {name: jax.config.values[name] for name in settings}
    try:
        for name, value in settings.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        yield tmp_path
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


def product_at(start: str) -> Any:
    """Return a product that a reader has written there."""
    names: dict[str, Any] = {}
    code = f"{start}def f(x, w):\n    return x @ w\n"
    exec(compile(code, "reader.py", "exec"), names)
    return jax.jit(names["f"])


@pytest.mark.parametrize("metadata", [False, True])
def test_a_cached_program_has_the_lines_of_today(
    cache: Path, metadata: bool
) -> None:
    """program() does not read what an older file has compiled."""
    setting = "jax_compilation_cache_include_metadata_in_key"
    jax.config.update(setting, metadata)
    w = place(jnp.ones((64, 16)), GRID, "model")
    lines = []
    for start in ("", "\n\n"):
        step = product_at(start)
        step(jnp.ones((8, 64)), w)
        (seen,) = program(step, jnp.ones((8, 64)), w).communication
        lines.append(seen.line)

    assert any(cache.iterdir())
    assert lines == ["reader.py:2", "reader.py:4"]


@pytest.mark.usefixtures("cache")
def test_a_cached_program_says_the_same() -> None:
    """Where the cache tells lines apart, program() reads it."""
    setting = "jax_compilation_cache_include_metadata_in_key"
    jax.config.update(setting, True)
    x, w = jnp.ones((8, 64)), place(jnp.ones((64, 16)), GRID, "model")
    events: list[str] = []
    found: list[Program] = []

    def listen(event: str, **_: Any) -> None:
        events.append(event.rpartition("/")[2])

    jax.monitoring.register_event_listener(listen)
    try:
        for _ in range(2):
            jax.clear_caches()
            events.clear()
            found.append(program(product_at(""), x, w))
    finally:
        jax.monitoring.unregister_event_listener(listen)
    fresh, cached = found

    assert "cache_hits" in events
    assert "cache_misses" not in events
    assert str(cached) == str(fresh)
    assert cached.peak == fresh.peak
    # XLA numbers the lines anew as it reads a program.
    assert replace(cached, text=fresh.text) == fresh


def test_what_is_lowered_or_compiled_already() -> None:
    """program() reads what jax.jit and nnx.jit have lowered."""
    model = nnx.Linear(8, 8, rngs=nnx.Rngs(0))
    x = place(jnp.ones((8, 8)), EIGHT, "model")

    def forward(model: nnx.Linear, x: jax.Array) -> jax.Array:
        return model(x).sum()

    for jitted in (jax.jit(forward), nnx.jit(forward)):
        lowered = jitted.lower(model, x)
        for given in (lowered, lowered.compile()):
            assert program(given).collectives == {"all-reduce": 1}
            assert program(given).transfers is None
    with pytest.raises(TypeError, match="takes a function, but got 3"):
        program(3)  # type: ignore[arg-type]


def test_a_text_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peak and the FLOPs are found in what was read for the rest."""
    read = Module.of
    texts: list[str] = []
    monkeypatch.setattr(
        Module, "of", lambda text: texts.append(text) or read(text)
    )
    seen = program(jnp.matmul, jnp.ones((8, 8)), jnp.ones((8, 8)))

    assert seen.peak.arrays
    assert seen.flops.total == 2 * 8**3
    assert texts == [seen.text]
