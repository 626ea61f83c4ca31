"""What draw() shows of collectives, and of an array that is resharded."""

import dataclasses
import re
from collections.abc import Callable
from functools import partial
from typing import Any
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

from shardscope import Collective, draw, program
from shardscope.drawings.figure import COLORS
from shardscope.hlo import Module
from shardscope.programs.communication import communication

pytestmark = pytest.mark.newest

SVG = "{http://www.w3.org/2000/svg}"
ORDER = [3, 1, 7, 5, 0, 2, 6, 4]


def mesh_of(rows: int, columns: int, order: Any = None) -> Mesh:
    """Arrange the eight devices, in an order of our own."""
    devices = np.array(jax.devices())[order or [*range(8)]]
    auto = (AxisType.Auto,) * 2
    shape = devices.reshape(rows, columns)
    return Mesh(shape, ("data", "model"), axis_types=auto)


MESHES = [
    mesh_of(2, 4),
    mesh_of(4, 2),
    mesh_of(1, 8),
    mesh_of(8, 1),
    mesh_of(2, 4, ORDER),
]


IDS = ["2x4", "4x2", "1x8", "8x1", "2x4 in another order"]


def placed(mesh: Mesh, *spec: Any) -> jax.Array:
    """Lay 16 by 16 different numbers out."""
    x = jnp.arange(256.0).reshape(16, 16)
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


def keep(mesh: Mesh, *spec: Any) -> Callable[..., Any]:
    """Give a function that lays its array out."""
    out = NamedSharding(mesh, P(*spec))
    return jax.jit(lambda x: x, out_shardings=out)


def mapped(mesh: Mesh, function: Any) -> Callable[..., Any]:
    """Map a function over the devices along "model", which hold rows."""
    rows = P("model")
    return jax.jit(
        jax.shard_map(function, mesh=mesh, in_specs=rows, out_specs=rows)
    )


def on_devices(x: jax.Array) -> dict[int, np.ndarray]:
    """Give what each device holds."""
    return {s.device.id: np.asarray(s.data) for s in x.addressable_shards}


def only(function: Any, *args: Any) -> Collective:
    """Give the one collective of a call."""
    (each,) = program(function, *args).communication
    return each


def stages(drawing: Any) -> tuple[dict[int, str], dict[int, str]]:
    """Read from the text of a drawing what each device holds."""
    held: list[dict[int, str]] = []
    for line in repr(drawing).splitlines():
        if re.match("before|after", line):
            held.append({})
        if match := re.fullmatch("  devices? ([-0-9 ]+): (.*)", line):
            for run in match[1].split():
                first, _, last = run.partition("-")
                for device in range(int(first), int(last or first) + 1):
                    held[-1][device] = match[2]
    before, after = held
    return before, after


@pytest.mark.parametrize("mesh", MESHES, ids=IDS)
@pytest.mark.parametrize(
    "spec",
    [
        P(("model", "data")),
        P(("data", "model")),
        P("model"),
        P(None, "data"),
    ],
    ids=str,
)
def test_an_all_gather(mesh: Mesh, spec: P) -> None:
    """The parts, put together in order, are what devices then have."""
    x = placed(mesh, *spec)
    gather = keep(mesh)
    found = program(gather, x).communication
    if not found:
        pytest.skip("an axis of one device")
    before, after = stages(draw(found[0]))
    had, has = on_devices(x), on_devices(gather(x))
    parts = {words: had[device] for device, words in before.items()}
    whole = np.concatenate(
        [parts[f"part {n}"] for n in range(len(parts))],
        found[0].dimension,
    )

    assert {*before} == {*after} == {*found[0].groups[0]}
    for device, words in after.items():
        assert words == f"parts 0-{len(parts) - 1}"
        np.testing.assert_array_equal(whole, has[device])


@pytest.mark.parametrize(
    "mesh", [MESHES[0], MESHES[4]], ids=["2x4", "in another order"]
)
def test_a_reduce_scatter(mesh: Mesh) -> None:
    """Each device has the part of the sum that the drawing says."""
    x = placed(mesh, "model")
    scatter = mapped(
        mesh, partial(jax.lax.psum_scatter, axis_name="model", tiled=True)
    )
    before, after = stages(draw(only(scatter, x)))
    had, has = on_devices(x), on_devices(scatter(x))
    total = sum(had[device] for device in before)

    assert {*before.values()} == {"a partial sum, different on each"}
    for device, words in after.items():
        part = int(re.fullmatch(r"part (\d) of the sum", words)[1])
        np.testing.assert_array_equal(
            np.split(total, len(after))[part], has[device]
        )


@pytest.mark.parametrize(
    ("reduce", "noun"), [(jnp.sum, "sum"), (jnp.max, "maximum")]
)
def test_an_all_reduce(reduce: Any, noun: str) -> None:
    """Terms differ before, and all devices then have one result."""
    x = placed(MESHES[0], "model")
    each = only(partial(reduce, axis=0), x)
    before, after = stages(draw(each))
    figure = draw(each)._repr_html_()

    assert before == dict.fromkeys(
        range(4), f"a partial {noun}, different on each"
    )
    assert after == dict.fromkeys(range(4), f"the {noun}")
    assert figure.count("stroke-dasharray") == 4
    assert "the same in 1 more group" in repr(draw(each))


@pytest.mark.parametrize(
    "mesh", [MESHES[0], MESHES[4]], ids=["2x4", "in another order"]
)
def test_an_all_to_all(mesh: Mesh) -> None:
    """Each device has the part from each device that the drawing says."""
    x = placed(mesh, "model")
    turn = mapped(
        mesh,
        lambda x: jax.lax.all_to_all(x, "model", 1, 0, tiled=True),
    )
    before, after = stages(draw(only(turn, x)))
    had, has = on_devices(x), on_devices(turn(x))

    assert {*before.values()} == {"parts 0-3 of its own"}
    for device, words in after.items():
        part = int(re.fullmatch(r"part (\d) of each device", words)[1])
        parts = [np.split(had[other], 4, 1)[part] for other in before]
        np.testing.assert_array_equal(np.concatenate(parts), has[device])


@pytest.mark.parametrize(
    "mesh", [MESHES[0], MESHES[4]], ids=["2x4", "in another order"]
)
def test_a_collective_permute(mesh: Mesh) -> None:
    """Each device has what the drawing says, and the first has zeros."""
    x = placed(mesh, "model")
    pairs = [(0, 1), (1, 2), (2, 3)]
    shift = mapped(mesh, lambda x: jax.lax.ppermute(x, "model", pairs))
    each = only(shift, x)
    _, after = stages(draw(each))
    had, has = on_devices(x), on_devices(shift(x))

    assert len(after) == 4
    assert f"each device sends {4 * 4 * 16} bytes" in repr(draw(each))
    for device, words in after.items():
        source = re.fullmatch(r"that of device (\d)|zeros", words)[1]
        expected = had[int(source)] if source else np.zeros((4, 16))
        np.testing.assert_array_equal(expected, has[device])


def test_the_picture_has_the_parts() -> None:
    """A device is filled before and after as the text says."""
    each = only(keep(MESHES[0]), placed(MESHES[0], "model"))
    figure = ElementTree.fromstring(draw(each)._repr_html_())
    (picture,) = figure.findall(f".//{SVG}svg")
    cells = [
        (float(part.get("y")), float(part.get("x")), part.get("fill"))
        for part in picture.iter(f"{SVG}rect")
        if part.get("fill") in COLORS
    ]
    frames = [
        (float(part.get("y")), float(part.get("x")))
        for part in picture.iter(f"{SVG}rect")
        if part.get("fill") == "none"
    ]
    filled = [
        [c for y, x, c in cells if x == left and 0 <= y - top < 60]
        for top, left in sorted(frames)
    ]
    travels = [part.get("stroke") for part in picture.iter(f"{SVG}path")]

    assert filled == [[c] for c in COLORS[:4]] + [[*COLORS[:4]]] * 4
    assert sorted(travels) == sorted(COLORS[:4] * 3)


def test_the_words_are_the_alternative_of_the_picture() -> None:
    """A screen reader hears what is printed; nothing has an id."""
    x = placed(MESHES[0], "model")
    each = only(keep(MESHES[0]), x)
    for drawing in (draw(each), draw(x, placed(MESHES[0]))):
        figure = ElementTree.fromstring(drawing._repr_html_())
        file = ElementTree.fromstring(drawing.svg())
        image = figure.find("div")

        assert image.get("role") == "img"
        assert image.get("aria-label").split() == repr(drawing).split()
        assert file[0].text == repr(drawing)
        assert " id=" not in drawing._repr_html_() + drawing.svg()


def test_a_group_of_many_devices() -> None:
    """Of 512 devices eight are drawn, and the drawing says so."""
    each = only(keep(MESHES[2]), placed(MESHES[2], "model"))
    many = dataclasses.replace(each, groups=(tuple(range(512)),), group=512)
    drawing = draw(many)
    lines = repr(drawing).splitlines()

    assert "8 of 512 devices are drawn" in lines[-1]
    assert "  and so on for 504 more" in lines
    assert "  devices 0-511: parts 0-511" in lines
    assert ">511<" in drawing._repr_html_()
    assert len(drawing._repr_html_()) < 40_000
    # What one of them receives; all 56 lines are a tangle.
    assert drawing._repr_html_().count('stroke-opacity="1"') == 7


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dimension": None}, "doesn't tell which part"),
        ({"groups": ((0, 1, 2), (3, 4))}, "differ in their numbers"),
        ({"kind": "ragged-all-to-all"}, "the data says how much"),
        ({"kind": "collective-broadcast"}, "this kind is not drawn"),
    ],
)
def test_what_is_not_known_is_not_drawn(
    changes: dict[str, Any], reason: str
) -> None:
    """Words say why there is no picture, rather than a wrong one."""
    each = only(keep(MESHES[0]), placed(MESHES[0], "model"))
    drawing = draw(dataclasses.replace(each, **changes))

    assert reason in repr(drawing)
    assert reason.replace("'", "&#x27;") in drawing._repr_html_()
    assert "<svg" not in drawing._repr_html_()


def test_a_reduction_that_is_not_known() -> None:
    """A program that doesn't tell what it adds has partial results."""
    x = placed(MESHES[0], "model")
    each = only(partial(jnp.sum, axis=0), x)
    drawing = draw(dataclasses.replace(each, reduction=""))

    assert "a partial result, different on each" in repr(drawing)


def test_several_arrays_of_one_collective() -> None:
    """The first is drawn, and the others are counted."""
    each = only(keep(MESHES[0]), placed(MESHES[0], "model"))
    three = dataclasses.replace(each, arrays=each.arrays * 3)

    assert "f32[4,16] to f32[16,16] and 2 more arrays" in repr(draw(three))


def test_without_a_mesh_the_devices_are_positions() -> None:
    """A program that is only a text is drawn by its own numbers."""
    x = placed(MESHES[4], "model")
    text = program(keep(MESHES[4]), x).text
    (each,) = communication(Module.of(text))

    assert each.groups == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert only(keep(MESHES[4]), x).groups == ((3, 1, 7, 5), (0, 2, 6, 4))


# --- Resharding ---


@pytest.mark.parametrize("mesh", MESHES, ids=IDS)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (P("model"), P(None, "model")),
        (P("data", "model"), P("model", "data")),
        (P(None, ("model", "data")), P()),
        (P(), P("data")),
    ],
)
def test_the_bytes_that_a_device_receives(
    mesh: Mesh, before: P, after: P
) -> None:
    """They are those of the elements that the device did not hold."""
    x, y = placed(mesh, *before), placed(mesh, *after)
    had, has = on_devices(x), on_devices(y)
    expected = {
        device: 4 * len({*has[device].flat} - {*had[device].flat})
        for device in had
    }
    received = {}
    for line in repr(draw(x, y)).splitlines()[2:-1]:
        ids, *_, count = re.split("  +", line.strip())
        for run in ids.split():
            first, _, last = run.partition("-")
            for device in range(int(first), int(last or first) + 1):
                received[device] = int(count)

    assert received == expected
    assert repr(draw(x, y)) == repr(draw(x, y.sharding))
    assert repr(draw(x, y)) == repr(draw(x.sharding, y))
    total = f"{sum(expected.values()):,} bytes received in all"
    assert repr(draw(x, y)).endswith(total)


def test_what_stays_is_pale() -> None:
    """The parts that arrive are in full color, and no others."""
    mesh = MESHES[0]
    page = draw(placed(mesh, "model"), placed(mesh))._repr_html_()
    figure = ElementTree.fromstring(page)
    _, after = figure.findall(f".//{SVG}svg")
    cells = [
        part
        for part in after.iter(f"{SVG}rect")
        if part.get("fill") in COLORS
    ]

    assert len(cells) == 8 * 4
    assert sum(part.get("opacity") == "0.3" for part in cells) == 8


def test_an_array_that_comes_to_a_mesh() -> None:
    """The device that holds the array receives nothing, the others do."""
    mesh = MESHES[0]
    text = repr(draw(jnp.ones((8, 4)), NamedSharding(mesh, P("model"))))

    assert re.search(r"\n  0 +\[0:8, 0:4\]  \[0:2, 0:4\] +0\n", text)
    assert re.search(r"\n  1 5 +nothing +\[2:4, 0:4\] +32\n", text)


def test_trees_that_are_not_alike() -> None:
    """The arrays before and after must be the same."""
    with pytest.raises(
        ValueError, match=r"a float32\[2\] and a float32\[3"
    ):
        draw({"a": jnp.ones(2)}, {"a": jnp.ones(3)})
    with pytest.raises(ValueError, match=r"b float32\[2\] and nothing"):
        draw({"a": jnp.ones(2), "b": jnp.ones(2)}, {"a": jnp.ones(2)})
    sharding = NamedSharding(MESHES[0], P())
    with pytest.raises(TypeError, match="only together with an array"):
        draw(sharding, sharding)


def test_terms_of_a_sum_are_not_resharded() -> None:
    """What moves of an unreduced array depends on how it is added up."""
    mesh = jax.make_mesh((8,), ("model",), (AxisType.Explicit,))
    terms = NamedSharding(mesh, P(unreduced={"model"}))
    x = jax.ShapeDtypeStruct((8,), jnp.float32, sharding=terms)

    with pytest.raises(ValueError, match="unreduced array"):
        draw(x, NamedSharding(mesh, P()))


def test_many_devices_are_words_alone() -> None:
    """On more devices than a picture can number, the table remains."""
    mesh = jax.sharding.AbstractMesh((16, 32), ("data", "model"))
    x = jax.ShapeDtypeStruct(
        (512, 512), jnp.float32, sharding=NamedSharding(mesh, P("model"))
    )
    drawing = draw(x, NamedSharding(mesh, P("data", "model")))

    assert "<svg" not in drawing._repr_html_()
    assert "more rows" in repr(drawing)
    assert "1,015,808 bytes received in all" in repr(drawing)


# --- Terminals ---


def test_colors_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """print() has colors there, unless NO_COLOR is set; repr() has none."""
    x = placed(MESHES[0], "model")
    each = only(keep(MESHES[0]), x)
    drawings = [draw(x), draw(each)]
    assert all("\x1b" not in str(drawing) for drawing in drawings)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    for drawing in drawings:
        plain = re.sub("\x1b.*?m", "", str(drawing))
        words = re.sub("(  )?██+| *\n?", "", plain)
        assert "\x1b" not in repr(drawing)
        assert "\x1b[38;5;116m██" in str(drawing)
        assert re.sub(" *\n?", "", repr(drawing)).endswith(words[-40:])
    assert "\x1b[48;5;116m\x1b[30m  0  \x1b[0m" in str(draw(x))
    monkeypatch.setenv("NO_COLOR", "1")
    assert str(draw(x)) == repr(draw(x))
