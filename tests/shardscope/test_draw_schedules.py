"""What draw() shows of a loop in which devices pass arrays on."""

import dataclasses
import re
from typing import Any
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, Mesh, PartitionSpec as P

from shardscope import Collective, draw, program

SVG = "{http://www.w3.org/2000/svg}"


def mesh_of(rows: int, columns: int) -> Mesh:
    """Arrange the eight devices."""
    auto = (AxisType.Auto,) * 2
    return jax.make_mesh((rows, columns), ("data", "model"), auto)


def chain(count: int) -> list[tuple[int, int]]:
    """Give the pairs of neighbors of so many devices."""
    return [(i, i + 1) for i in range(count - 1)]


def entered(
    mesh: Mesh, pairs: Any, turns: int = 6, late: int = 0
) -> tuple[Any, Any]:
    """Note in which turn what each device holds entered at the first one.

    With ``late``, what arrives waits for so many turns.
    """

    def local() -> jax.Array:
        stage = jax.lax.axis_index("model")

        def tick(waiting: Any, turn: Any) -> Any:
            arrived, *rest = waiting
            y = jnp.where(stage == 0, turn, arrived)
            sent = jax.lax.ppermute(y, "model", pairs)
            return (*rest, sent), y

        start = jax.lax.pcast(jnp.int32(-1), "model", to="varying")
        waiting = (start,) * (late + 1)
        return jax.lax.scan(tick, waiting, jnp.arange(turns))[1][None]

    run = jax.jit(
        jax.shard_map(local, mesh=mesh, in_specs=(), out_specs=P("model"))
    )
    return run, run()


def permute_of(function: Any, *args: Any) -> Collective:
    """Give the first permute of a call."""
    found = program(function, *args).communication
    return next(c for c in found if c.kind == "collective-permute")


def rows_of(drawing: Any) -> dict[int, list[str]]:
    """Read from the text of a drawing what each device holds, by turn."""
    found = re.findall(r"  device +(\d+)  +(.*)", repr(drawing))
    return {int(device): cells.split() for device, cells in found}


@pytest.mark.parametrize("shape", [(2, 4), (1, 8), (4, 2)], ids=str)
def test_a_chain(shape: tuple[int, int]) -> None:
    """Each device has, in each turn, what entered when the drawing says."""
    mesh = mesh_of(*shape)
    run, held = entered(mesh, chain(shape[1]), 9)
    permute = permute_of(run)

    drawing = draw(permute)

    rows = rows_of(drawing)
    assert permute.passed_on
    assert [*rows] == [*range(shape[1])]
    passed = 9 - shape[1] + 1
    for device, cells in rows.items():
        for turn, cell in enumerate(cells):
            number = int(held[device, turn])
            through = 0 <= number < passed
            # A device waits for the first, or has what comes too late.
            assert cell == (f"{number}" if through else "-")
    assert f"{passed} arrays pass from device 0 to" in repr(drawing)
    assert "if an array enters at device 0 in every turn" in repr(drawing)
    others = shape[0] - 1
    assert (f"in {others} more chain" in repr(drawing)) == (others > 0)


def test_the_gradient_runs_from_the_last_device() -> None:
    """Of a gradient, both loops are drawn, the second turned round."""
    mesh = mesh_of(2, 4)

    def local(x: Any) -> Any:
        stage = jax.lax.axis_index("model")

        def tick(arrived: Any, entering: Any) -> Any:
            y = jnp.sin(jnp.where(stage == 0, entering, arrived))
            return jax.lax.ppermute(y, "model", chain(4)), y

        x = jax.lax.pcast(x, "model", to="varying")
        made = jax.lax.scan(tick, x[0], x)[1]
        return jax.lax.psum(jnp.where(stage == 3, made, 0), "model")

    run = jax.shard_map(local, mesh=mesh, in_specs=P(), out_specs=P())
    gradient = jax.grad(lambda x: (run(x) ** 2).sum())

    found = [
        rows_of(draw(each))
        for each in program(gradient, jnp.ones((7, 3))).communication
        if each.kind == "collective-permute"
    ]

    assert [[*rows] for rows in found] == [[0, 1, 2, 3], [3, 2, 1, 0]]
    assert [*found[0].values()] == [*found[1].values()]


@pytest.mark.parametrize(
    ("pairs", "late", "why"),
    [
        ([*chain(4), (3, 0)], 0, "devices are in a ring"),
        ([(0, 1), (1, 2)], 1, "no turn is seen to send on"),
    ],
)
def test_what_the_program_does_not_tell(
    pairs: Any, late: int, why: str
) -> None:
    """A ring, or what waits for a turn, is drawn as a single permute."""
    run, _ = entered(mesh_of(2, 4), pairs, late=late)

    words = repr(draw(permute_of(run)))

    assert "after: what arrived" in words
    assert re.search(f"no turn by turn, because .*{why}", words)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"groups": ((0, 1), (1, 2), (4, 5))}, "differ in length"),
        ({"counted": False}, "how many turns"),
        ({"times": 3}, "fewer turns than devices"),
    ],
)
def test_other_reasons(changes: dict[str, Any], why: str) -> None:
    """Words say why there is no schedule."""
    run, _ = entered(mesh_of(2, 4), chain(4))
    changed = dataclasses.replace(permute_of(run), **changes)

    assert re.search(
        f"no turn by turn, because .*{why}", repr(draw(changed))
    )


def test_one_array() -> None:
    """The words are right for one array too."""
    run, _ = entered(mesh_of(2, 4), chain(4), 4)

    assert "1 array passes from device 0 to 3" in repr(
        draw(permute_of(run))
    )


def onward(x: Any) -> Any:
    """Pass an array on along the stages."""
    return jax.lax.ppermute(x, "model", chain(4))


def again(x: Any) -> Any:
    """Send the same array in each turn."""

    def turn(total: Any, scale: Any) -> Any:
        return total + onward(x * scale), None

    return jax.lax.scan(turn, x, jnp.arange(5.0))[0]


def attention(x: Any) -> Any:
    """Pass keys on, and add up what the devices before had."""
    stage = jax.lax.axis_index("model")

    def turn(carried: Any, t: Any) -> Any:
        keys, total = carried
        total = total + jnp.where(stage >= t, jnp.tanh(x * keys), 0)
        return (onward(keys), total), None

    return jax.lax.scan(turn, (x, jnp.zeros_like(x)), jnp.arange(4))[0][1]


def heat(x: Any) -> Any:
    """Let heat flow along a rod that is cold at its beginning."""
    stage = jax.lax.axis_index("model")

    def turn(x: Any, _: Any) -> Any:
        left = jnp.where(stage == 0, 0, onward(x[-1:]))
        return (x + jnp.concatenate([left, x[:-1]])) / 2, None

    return jax.lax.scan(turn, x, length=10)[0]


def train(x: Any) -> Any:
    """Take steps of SGD, with a row of the neighbor as a halo."""

    def loss(w: Any) -> Any:
        y = jnp.tanh(w * x)
        return jax.lax.psum(((y - onward(y[-1:])) ** 2).sum(), "model")

    def step(w: Any, _: Any) -> Any:
        return w - 0.1 * jax.grad(loss)(w), None

    return x * jax.lax.scan(step, jnp.ones(()), length=6)[0]


def prefix_sum(x: Any) -> Any:
    """Add up what the devices before have."""

    def turn(carried: Any, _: Any) -> Any:
        run, total = carried
        arrived = onward(run)
        return (arrived, total + arrived), None

    return jax.lax.scan(turn, (x, x), length=4)[0][1]


def only_a_norm(x: Any) -> Any:
    """Divide what is new by the norm of what arrived."""
    stage = jax.lax.axis_index("model")

    def turn(norm: Any, t: Any) -> Any:
        new = jnp.where(stage == 0, x * t, x)
        arrived = onward(new / norm)
        return jax.lax.pmax(jnp.abs(arrived).max(), "model") + 1, arrived

    return jax.lax.scan(turn, jnp.ones(()), jnp.arange(5.0))[1].sum(0)


def twice(x: Any) -> Any:
    """Write two turns of a pipeline into a turn of the loop."""
    return pipeline(x, unroll=2)


def in_two_loops(x: Any) -> Any:
    """Run a pipeline in each turn of a loop."""
    return jax.lax.scan(lambda x, _: (pipeline(x), None), x, length=3)[0]


def pipeline(x: Any, **options: Any) -> Any:
    """Take in an array in each turn."""
    stage = jax.lax.axis_index("model")

    def tick(arrived: Any, t: Any) -> Any:
        return onward(jnp.sin(jnp.where(stage == 0, x + t, arrived))), None

    return jax.lax.scan(tick, x, jnp.arange(8.0), **options)[0]


def stages_of_two(x: Any) -> Any:
    """Compute each stage on the two devices along "data"."""
    stage = jax.lax.axis_index("model")

    def tick(arrived: Any, t: Any) -> Any:
        y = jnp.sin(jnp.where(stage == 0, x + t, arrived))
        y = jax.lax.pcast(jax.lax.psum(y, "data"), "data", to="varying")
        return onward(y), None

    x = jax.lax.pcast(x, "data", to="varying")
    y = jax.lax.scan(tick, x, jnp.arange(8.0))[0]
    return jax.lax.pmean(y, "data")


@pytest.mark.parametrize(
    ("local", "passed_on"),
    [
        (again, False),
        (attention, False),
        (heat, False),
        (train, False),
        (prefix_sum, False),
        (only_a_norm, False),
        (twice, False),
        (in_two_loops, False),
        (pipeline, True),
        (stages_of_two, True),
    ],
)
def test_what_is_passed_on(local: Any, passed_on: bool) -> None:
    """Loops that send, but aren't pipelines, have no schedule."""
    spec = P("model")
    run = jax.shard_map(
        local, mesh=mesh_of(2, 4), in_specs=spec, out_specs=spec
    )

    found = [
        each
        for each in program(run, jnp.ones(16)).communication
        if each.kind == "collective-permute"
    ]

    assert found
    for each in found:
        assert each.passed_on == passed_on
        assert ("no turn is seen" in repr(draw(each))) != passed_on


def test_a_loop_that_is_not_counted() -> None:
    """Words say so if the number of turns depends on data."""

    def local(x: Any, count: Any) -> Any:
        stage = jax.lax.axis_index("model")

        def tick(t: Any, arrived: Any) -> Any:
            return onward(jnp.where(stage == 0, x + t, arrived))

        return jax.lax.fori_loop(0, count, tick, x)

    run = jax.shard_map(
        local,
        mesh=mesh_of(2, 4),
        in_specs=(P("model"), P()),
        out_specs=P("model"),
    )
    permute = permute_of(run, jnp.ones(8), jnp.int32(8))

    assert "because the program doesn't say how many" in repr(draw(permute))


def test_the_picture_has_what_the_words_say() -> None:
    """The picture has a number for each cell, and fits on a phone."""
    run, _ = entered(mesh_of(2, 4), chain(4), 6)
    drawing = draw(permute_of(run))
    figure = ElementTree.fromstring(drawing._repr_html_())
    (image,) = figure.findall(f".//{SVG}svg")
    cells = [cell for row in rows_of(drawing).values() for cell in row]
    words = [each.text for each in image.iter(f"{SVG}text")]
    shaded = [x for x in image.iter(f"{SVG}rect") if x.get("opacity")]

    assert float(image.get("width", "inf")) <= 320
    assert sorted(w for w in words if w and w.isdigit()) == sorted(
        [*"0123", *(cell for cell in cells if cell != "-")]
    )
    assert len(shaded) == cells.count("-") == 12
    assert figure[0].get("aria-label", "").split() == repr(drawing).split()


def test_many_turns() -> None:
    """Of many turns the first and the last are drawn."""
    run, _ = entered(mesh_of(1, 8), chain(8), 200)
    permute = permute_of(run)
    pairs = tuple((i, i + 1) for i in range(99))
    drawing = draw(dataclasses.replace(permute, groups=pairs))

    rows = rows_of(drawing)
    assert [*rows] == [*range(8), *range(92, 100)]
    assert rows[0][:2] == ["0", "1"]
    assert rows[99][-2:] == ["99", "100"]
    assert all("…" in cells for cells in rows.values())
    assert len(drawing._repr_html_()) < 50_000
