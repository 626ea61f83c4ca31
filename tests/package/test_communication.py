"""What is read of a compiled program's communication, to the byte."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P
from strategies import MESHES

from shardbook._communication import Collective, communication

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
    return list(communication(text, dict(GRID.shape)))


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
    assert seen.direction == "forward"
    assert seen.source == f"{__file__}:{line}"


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


def test_a_loop_without_a_count() -> None:
    """How often a while loop turns is not known."""

    def looped(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(
            lambda x: x[0, 0] < 9, lambda x: x + x.sum(0), x
        )

    seen = found(looped, X)

    assert seen
    assert not any(each.counted for each in seen if each.bytes > 4)


def test_the_line_is_the_readers() -> None:
    """Frames within flax and jax are skipped."""
    from flax import nnx

    model = nnx.Linear(128, 8, rngs=nnx.Rngs(0))
    rows = NamedSharding(GRID, P("model"))
    model.kernel.set_value(jax.device_put(model.kernel[...], rows))

    def forward(model: nnx.Linear, x: jax.Array) -> jax.Array:
        return model(x)

    (seen,) = found(forward, model, X)

    assert (
        seen.source == f"{__file__}:{forward.__code__.co_firstlineno + 1}"
    )


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
    "replica_groups={{0,1},{2,3},{4,5},{6,7}}": (),
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


@pytest.mark.parametrize("groups", NOTATIONS)
@pytest.mark.parametrize(
    "outer", ["fusion(%x), calls=%inner", "async-start(%x), calls=%inner"]
)
def test_each_notation_of_groups(groups: str, outer: str) -> None:
    """Groups are positions in the mesh, however they are written."""
    instruction = f"all-reduce-start(%p), {groups}, to_apply=%add"
    text = PROGRAM.replace("INSTRUCTION", instruction)
    (seen,) = communication(
        text.replace("OUTER", outer), {"data": 2, "model": 4}
    )

    assert (seen.kind, seen.axes) == ("all-reduce", NOTATIONS[groups])
    assert seen.arrays == ("f32[16]",)


def test_a_fused_reduce_scatter() -> None:
    """The TPU's all-reduce-scatter is a reduce-scatter."""
    text = (
        PROGRAM.replace("INSTRUCTION", "all-reduce(%p), replica_groups={}")
        .replace("OUTER", "fusion(%x), calls=%inner")
        .replace("%inner", "%all-reduce-scatter.1")
    )
    (seen,) = communication(text)

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
    seen = communication("\n".join([*bodies, entry]))

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
    (seen,) = communication(text)

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
    (seen,) = communication(text)

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
        communication(text.replace("OUTER", "call(%x), to_apply=%inner"))
        == ()
    )
