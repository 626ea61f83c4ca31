"""What is read of a compiled program's communication, to the byte."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P
from strategies import MESHES

from shardscope.hlo import Module
from shardscope.programs.collective import Collective
from shardscope.programs.communication import communication

GRID = MESHES[1]
LOOPS = 5
X = jax.device_put(
    jnp.ones((64, 128)), NamedSharding(GRID, P("data", "model"))
)
# Of the slice of X on a device.
BYTES = 32 * 32 * 4


def rotate(x: jax.Array, axis: Any) -> jax.Array:
    """Send each slice to the next device."""
    size = jax.lax.axis_size(axis)
    pairs = [(i, (i + 1) % size) for i in range(size)]
    return jax.lax.ppermute(x, axis, pairs)


# What is called, what its gradient calls, and what a device sends of B
# bytes in a group of n.
KINDS: dict[str, tuple[Callable[..., Any], str, Callable[..., float]]] = {
    "all-gather": (
        lambda x, axis: jax.lax.all_gather(x, axis, tiled=True),
        "reduce-scatter",
        lambda b, n: b * (n - 1),
    ),
    "all-reduce": (
        lambda x, axis: jax.lax.psum(x, axis),
        "all-reduce",
        lambda b, n: 2 * b * (n - 1) / n,
    ),
    "all-to-all": (
        lambda x, axis: jax.lax.all_to_all(x, axis, 1, 0, tiled=True),
        "all-to-all",
        lambda b, n: b * (n - 1) / n,
    ),
    "collective-permute": (rotate, "collective-permute", lambda b, n: b),
    "reduce-scatter": (
        lambda x, axis: jax.lax.psum_scatter(x, axis, tiled=True),
        "all-gather",
        lambda b, n: b * (n - 1) / n,
    ),
}
AXES = [("data",), ("model",), ("data", "model")]


def total(step: Callable[..., Any], axes: tuple[str, ...]) -> Any:
    """Make the function that sums what a step gives on each device."""

    def on_each(x: jax.Array) -> jax.Array:
        return jnp.sum(step(x, axes))[None, None]

    on_all = jax.shard_map(
        on_each,
        mesh=GRID,
        in_specs=P("data", "model"),
        out_specs=P("data", "model"),
        check_vma=False,
    )
    # The sum over the devices is a collective too, so it is left out.
    return jax.jit(on_all)


def found(function: Any, *arguments: Any) -> list[Collective]:
    """Compile a call, and read what it communicates."""
    text = jax.jit(function).lower(*arguments).compile().as_text()
    return list(communication(Module.of(text), dict(GRID.shape)))


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_collective_to_the_byte(kind: str, axes: tuple[str, ...]) -> None:
    """A collective has the right axes, bytes, count and line."""
    call, _, sent = KINDS[kind]
    group = math.prod(GRID.shape[axis] for axis in axes)
    (seen,) = found(total(call, axes), X)
    # rotate has two lines before the one that communicates.
    line = call.__code__.co_firstlineno + (4 if call is rotate else 0)

    assert (seen.kind, seen.axes) == (kind, axes)
    assert (seen.bytes, seen.sent) == (BYTES, sent(BYTES, group))
    assert (seen.times, seen.counted) == (1, True)
    assert seen.direction == ""
    assert seen.line == f"{__file__}:{line}"


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_is_counted(kind: str, axes: tuple[str, ...]) -> None:
    """A collective in a scan runs in each turn."""
    call, _, _ = KINDS[kind]

    def looped(x: jax.Array, axes: tuple[str, ...]) -> jax.Array:
        def turn(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
            return carry + jnp.sum(call(jnp.sin(carry) * x, axes)), None

        return jax.lax.scan(turn, jnp.float32(0), None, length=LOOPS)[0]

    (seen,) = found(total(looped, axes), X)

    assert (seen.kind, seen.axes, seen.bytes) == (kind, axes, BYTES)
    assert (seen.times, seen.counted) == (LOOPS, True)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_backward(kind: str) -> None:
    """Under remat, a step is done again for its gradient."""
    call, transposed, _ = KINDS[kind]

    def step(x: jax.Array, axes: tuple[str, ...]) -> jax.Array:
        return jnp.tanh(call(jnp.sin(x), axes))

    def loss(x: jax.Array) -> jax.Array:
        return total(jax.checkpoint(step, static_argnums=1), ("data",))(
            x
        ).sum()

    directions = {
        (each.kind, word)
        for each in found(jax.grad(loss), X)
        for word in each.direction.split(", ")
        if each.bytes > 4
    }

    assert (transposed, "backward") in directions
    assert {(kind, "rematerialized"), (transposed, "backward")} >= (
        directions - {(kind, "forward")}
    )


def test_outside_of_a_gradient_there_is_no_direction() -> None:
    """An optimizer's update is of neither pass."""

    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        return (x @ w).sum()

    def step(w: jax.Array, x: jax.Array) -> jax.Array:
        value, gradient = jax.value_and_grad(loss)(w, x)
        return w - value * gradient / jnp.linalg.norm(gradient)

    sharding = NamedSharding(GRID, P("model"))
    w = jax.device_put(jnp.ones((128, 8)), sharding)
    seen = {
        (line - step.__code__.co_firstlineno, each.direction)
        for each in found(step, w, X)
        for line in [int(each.line.rpartition(":")[2])]
    }

    assert {(-2, "forward"), (2, "")} <= seen
    assert (2, "forward") not in seen


def test_a_loop_without_a_count() -> None:
    """How often a while loop turns is not known."""

    def looped(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(
            lambda x: x[0, 0] < 9, lambda x: x + x.sum(0), x
        )

    seen = found(looped, X)

    assert seen
    assert not any(each.counted for each in seen if each.bytes > 4)
    assert not any(each.bounded for each in seen if each.bytes > 4)
    assert "in each turn at most 1 all-" in repr(seen)


def test_the_line_is_the_readers() -> None:
    """Frames within flax and jax are skipped."""
    from flax import nnx

    model = nnx.Linear(128, 8, rngs=nnx.Rngs(0))
    rows = NamedSharding(GRID, P("model"))
    model.kernel.set_value(jax.device_put(model.kernel[...], rows))

    def forward(model: nnx.Linear, x: jax.Array) -> jax.Array:
        return model(x)

    (seen,) = found(forward, model, X)

    assert seen.line == f"{__file__}:{forward.__code__.co_firstlineno + 1}"


# As XLA writes it for accelerators.
NOTATIONS = {
    "replica_groups={{0,4},{1,5},{2,6},{3,7}}": ("data",),
    "replica_groups=[4,2]<=[2,4]T(1,0)": ("data",),
    "replica_groups=[2,4]<=[8]": ("model",),
    "replica_groups=mesh['a'=2,'b'=1,'c'=4] {'a'}": ("data",),
    "replica_groups=mesh['a'=8] {'a':(2)4}": ("model",),
    "replica_groups=mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)) {'b'}": (
        "data",
    ),
    "replica_groups=mesh['a'=8] {'a':(1)2}": ("data",),
    "replica_groups={}": ("data", "model"),
}
PROGRAM = """HloModule f, num_partitions=8

%inner (p: f32[16]) -> f32[16] {
  %p = f32[16]{0:T(256)} parameter(0)
  ROOT %reduced = f32[16]{0:T(256)} INSTRUCTION
}

ENTRY %main (x: f32[16]) -> f32[16] {
  %x = f32[16]{0} parameter(0)
  ROOT %y = f32[16]{0} OUTER
}
"""


def test_an_unknown_kind_of_collective_is_an_error() -> None:
    """A report without its bytes would be wrong."""
    text = PROGRAM.replace(
        "INSTRUCTION", "all-shuffle-start(%p), replica_groups={{0,1}}"
    ).replace("OUTER", "call(%x), to_apply=%inner")

    with pytest.raises(NotImplementedError, match="'all-shuffle-start'"):
        communication(Module.of(text))


@pytest.mark.parametrize("groups", NOTATIONS)
@pytest.mark.parametrize(
    "outer", ["fusion(%x), calls=%inner", "async-start(%x), calls=%inner"]
)
def test_each_notation_of_groups(groups: str, outer: str) -> None:
    """Groups are positions in the mesh, however they are written."""
    instruction = f"all-reduce-start(%p), {groups}, to_apply=%add"
    text = PROGRAM.replace("INSTRUCTION", instruction)
    (seen,) = communication(
        Module.of(text.replace("OUTER", outer)), {"data": 2, "model": 4}
    )

    assert (seen.kind, seen.axes) == ("all-reduce", NOTATIONS[groups])
    assert not seen.subgroup
    assert seen.arrays == ("f32[16]",)


@pytest.mark.parametrize(
    ("groups", "axes"),
    [
        ("{{0,1},{2,3},{4,5},{6,7}}", ("model",)),
        ("{{0,2},{1,3},{4,6},{5,7}}", ("model",)),
        ("{{0,1},{2},{3},{4,5},{6},{7}}", ("model",)),
        ("{{0,1,4,5},{2,3,6,7}}", ("data", "model")),
        ("mesh['a'=8] {'a':(4)2}", ("model",)),
    ],
)
def test_a_part_of_an_axis(groups: str, axes: tuple[str, ...]) -> None:
    """Groups of some of the devices along an axis name it, as a part."""
    instruction = f"all-reduce(%p), replica_groups={groups}"
    text = PROGRAM.replace("INSTRUCTION", instruction)
    (seen,) = communication(
        Module.of(text.replace("OUTER", "call(%x), to_apply=%inner")),
        {"data": 2, "model": 4},
    )

    assert (seen.axes, seen.subgroup) == (axes, True)
    assert f"over part of {' and '.join(axes)}, " in repr(seen)


@pytest.mark.parametrize(
    ("groups", "axes", "aliases"),
    [
        ("replica_groups={{0,4},{1,5},{2,6},{3,7}}", ("data",), ()),
        ("replica_groups={{0,2,4,6},{1,3,5,7}}", ("p",), ()),
        ("replica_groups={{0,1},{2,3},{4,5},{6,7}}", ("q",), ()),
        (
            "replica_groups={}",
            ("data", "model"),
            (("p", "q"), ("z",)),
        ),
        # jax 0.12 writes the names of the first mesh, whichever it is.
        (
            "replica_groups=mesh['data'=2,'model'=4] {'data','model':(1)2}",
            ("p",),
            (),
        ),
        (
            "source_target_pairs={{0,2},{2,4},{4,6},{6,0},{1,3},{3,5},{5,7},"
            "{7,1}}",
            ("p",),
            (),
        ),
    ],
)
def test_the_axes_of_several_meshes(
    groups: str, axes: tuple[str, ...], aliases: tuple[Any, ...]
) -> None:
    """The mesh is the one whose axes have just the devices of a group."""
    text = PROGRAM.replace("INSTRUCTION", f"all-reduce(%p), {groups}")
    (seen,) = communication(
        Module.of(text.replace("OUTER", "call(%x), to_apply=%inner")),
        {"data": 2, "model": 4},
        {"p": 4, "q": 2},
        {"z": 8},
    )

    assert (seen.axes, seen.subgroup, seen.aliases) == (
        axes,
        False,
        aliases,
    )


def test_a_ragged_all_to_all() -> None:
    """A device puts in the first array; the others say where it goes."""
    text = """HloModule f, num_partitions=8

ENTRY %main (x: bf16[64,128], sizes: s32[8]) -> bf16[512,128] {
  %x = bf16[64,128]{1,0} parameter(0)
  %s = s32[8]{0} parameter(1)
  %y = bf16[512,128]{1,0} broadcast(%zero), dimensions={}
  ROOT %z = bf16[512,128]{1,0} ragged-all-to-all(%x, %y, %s, %s, %s, %s)
}
"""
    (seen,) = communication(Module.of(text), {"expert": 8})

    assert seen.arrays == ("bf16[64,128]",)
    assert seen.bytes == seen.sent == 64 * 128 * 2
    assert (seen.counted, seen.bounded, seen.exact) == (True, True, False)
    assert repr(seen) == (
        "<at most 1 ragged-all-to-all over expert, 16,384 bytes>"
    )


def test_a_branch_is_bounded() -> None:
    """A collective in a branch runs at most once."""

    def on_each(x: jax.Array) -> jax.Array:
        return jax.lax.cond(
            x[0, 0] > 0,
            lambda x: jax.lax.psum(x, "model"),
            lambda x: 2 * x,
            x,
        )

    function = jax.shard_map(
        on_each,
        mesh=GRID,
        in_specs=P("data", "model"),
        out_specs=P("data", "model"),
        check_vma=False,
    )
    (seen,) = found(function, X)

    assert (seen.times, seen.counted, seen.bounded) == (1, False, True)
    assert not seen.exact
    assert repr(seen).startswith("<at most 1 all-reduce of x over model, ")


def test_a_collective_is_one_line() -> None:
    """A Collective prints what matters of it, however long its path is."""
    (seen,) = found(lambda x: x.sum(0), X)
    many = replace(
        seen,
        times=12,
        arrays=("f32[32]",) * 100,
        arguments=("",) * 100,
        frames=(f"/{'folder/' * 30}train.py:31",),
        op_name="jit(step)/transpose(jvp())/dot_general:" * 40,
    )

    assert repr(many).startswith(
        "<12 all-reduce over data, 128 bytes, train.py:31, jit(step)/trans"
    )
    assert len(repr(many)) == 120


def test_a_fused_reduce_scatter() -> None:
    """The TPU's all-reduce-scatter is a reduce-scatter."""
    text = (
        PROGRAM.replace("INSTRUCTION", "all-reduce(%p), replica_groups={}")
        .replace("OUTER", "fusion(%x), calls=%inner")
        .replace("%inner", "%all-reduce-scatter.1")
    )
    (seen,) = communication(Module.of(text))

    assert (seen.kind, seen.bytes, seen.sent) == ("reduce-scatter", 64, 56)


def test_one_over_several_fusions() -> None:
    """What the TPU's compiler spreads over fusions happens once."""
    gather = (
        "all-gather(%p), channel_id={}, replica_groups=[1,8]<=[8], "
        'frontend_attributes={{chain_id="0"}}'
    )
    bodies = [
        f"%part.{number} (p: f32[16]) -> f32[128] {{\n"
        "  %p = f32[16]{0} parameter(0)\n"
        f"  ROOT %gather = f32[128]{{0}} {gather.format(channel)}\n}}\n"
        for number, channel in enumerate((4, 4, 4, 5))
    ]
    lines = [
        f"  %{number} = f32[128]{{0}} fusion(%x), calls=%part.{number}\n"
        for number in range(4)
    ]
    entry = f"ENTRY %main (x: f32[16]) -> f32[128] {{\n{''.join(lines)}}}\n"
    seen = communication(Module.of("\n".join([*bodies, entry])))

    assert [each.sent for each in seen] == [7 * 64] * 2


LOOP = """\
%test (state: (f32[16], s32[])) -> pred[] {
  %end = s32[] constant(END)
  %state = (f32[16], s32[]) parameter(0)
  %turn = s32[] get-tuple-element(%state), index=1
  ROOT %less = pred[] compare(%turn, %end), direction=LT
}

%body (state.1: (f32[16], s32[])) -> (f32[16], s32[]) {
  %step = s32[] constant(STEP)
  %state.1 = (f32[16], s32[]) parameter(0)
  %p = f32[16]{0} get-tuple-element(%state.1), index=0
  %turn.1 = s32[] get-tuple-element(%state.1), index=1
  %turn.2 = s32[] copy(%turn.1)
  %next = s32[] add(%turn.2, %step)
  %sum = f32[16]{0} all-reduce(%p), replica_groups={{0,1}}, to_apply=%add
  ROOT %result = (f32[16], s32[]) tuple(%sum, /*index=1*/%next)
}

ENTRY %main (x: f32[16]) -> (f32[16], s32[]) {
  %x = f32[16]{0} parameter(0)
  %first = s32[] FIRST
  %begin = s32[] copy(%first)
  %start = (f32[16], s32[]) tuple(%x, %begin)
  ROOT %loop = (f32[16], s32[]) while(%start), condition=%test, body=%body
}
"""


@pytest.mark.parametrize(
    ("first", "end", "step", "turns"),
    [(0, 80, 1, 80), (0, 8, 2, 4), (0, 7, 2, 4), (3, 9, 3, 2)],
)
def test_turns_that_no_one_noted(
    first: int, end: int, step: int, turns: int
) -> None:
    """A loop of the TPU's compiler is counted by its counter."""
    text = (
        LOOP.replace("FIRST", f"constant({first})")
        .replace("END", str(end))
        .replace("STEP", str(step))
    )
    (seen,) = communication(Module.of(text))

    assert (seen.times, seen.counted) == (turns, True)


@pytest.mark.parametrize(
    "unknown",
    [
        ("FIRST", "parameter(1)"),
        ("constant(END)", "parameter(1)"),
        ("constant(STEP)", "parameter(1)"),
        ("direction=LT", "direction=NE"),
        (" add(", " multiply("),
        ("add(%turn.2, ", "add(%end.1, "),
    ],
)
def test_turns_that_are_not_known(unknown: tuple[str, str]) -> None:
    """Another loop counts once, and is marked."""
    text = LOOP.replace(*unknown).replace("FIRST", "constant(0)")
    text = text.replace("END", "8").replace("STEP", "1")
    (seen,) = communication(Module.of(text))

    assert (seen.times, seen.counted) == (1, False)


@pytest.mark.parametrize(
    "alone",
    [
        "all-reduce(%p), replica_groups={{0},{1},{2},{3}}",
        "all-gather(%p), replica_groups=[8,1]<=[8]",
        "collective-permute(%p), source_target_pairs={{0,0},{1,1}}",
        "collective-permute(%p), source_target_pairs={}",
        "all-reduce(%p), replica_groups=mesh['a'=8,'b'=1] {'b'}",
    ],
)
def test_groups_of_one_are_left_out(alone: str) -> None:
    """A device that is alone in its group communicates nothing."""
    text = PROGRAM.replace("INSTRUCTION", alone)

    assert (
        communication(
            Module.of(text.replace("OUTER", "call(%x), to_apply=%inner"))
        )
        == ()
    )
