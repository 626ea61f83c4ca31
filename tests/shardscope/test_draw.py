"""What draw() shows, as text and as pictures."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from jax.sharding import (
    AbstractMesh,
    AxisType,
    NamedSharding,
    PartitionSpec as P,
)
from strategies import MESHES, placed

from shardscope import draw
from shardscope.drawings.figure import COLORS

pytestmark = pytest.mark.newest

PICTURE = Path(__file__).parents[2] / "docs/_static/sharded-kernel.svg"
Region = tuple[tuple[int, int], ...]


def regions_in(text: str) -> dict[int, Region]:
    """Read from the text of a drawing what each device holds."""
    held = {}
    for line in text.splitlines()[1:]:
        match = re.fullmatch(r"  devices? (.+): \[(.*)\]", line)
        ids, where = match.groups()
        region = tuple(
            tuple(map(int, part.split(":")))
            for part in where.split(", ")
            if part
        )
        for run in ids.split():
            first, _, last = run.partition("-")
            for device in range(int(first), int(last or first) + 1):
                held[device] = region
    return held


def regions_of(array: jax.Array) -> dict[int, Region]:
    """Ask JAX what each device holds."""
    indices = array.sharding.devices_indices_map(array.shape)
    return {
        device.id: tuple(
            part.indices(size)[:2]
            for part, size in zip(index, array.shape, strict=True)
        )
        for device, index in indices.items()
    }


def pictures(array: jax.Array) -> list[ElementTree.Element]:
    """Give the picture of the array, and that of the devices."""
    figure = ElementTree.fromstring(draw(array)._repr_html_())
    return figure.findall(".//{http://www.w3.org/2000/svg}svg")


def colored(picture: ElementTree.Element) -> list[ElementTree.Element]:
    """Give the rectangles that stand for slices."""
    return [part for part in picture if part.get("fill") in COLORS]


def numbers(part: ElementTree.Element, *names: str) -> list[float]:
    """Give some of the attributes of an element."""
    return [float(part.get(name)) for name in names]


def abstract(shape: tuple[int, ...], *spec: str | None) -> Any:
    """Give an abstract array on a mesh of two by four devices."""
    sharding = NamedSharding(MESHES[1], P(*spec))
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)


@given(placed())
def test_the_text_agrees_with_jax(array: jax.ShapeDtypeStruct) -> None:
    """draw() prints the type and the slices that JAX gives."""
    shape, dtype, mesh = array.shape, array.dtype, array.sharding.mesh
    explicit = (AxisType.Explicit,) * len(mesh.axis_names)
    mesh = AbstractMesh(mesh.axis_sizes, mesh.axis_names, explicit)
    sharding = NamedSharding(mesh, array.sharding.spec)
    typed = jax.core.ShapedArray(shape, dtype, sharding=sharding)
    text = repr(draw(array))

    assert text.startswith(f"{typed} P(")
    assert regions_in(text) == regions_of(array)


@given(placed())
def test_the_picture_of_the_array(array: jax.ShapeDtypeStruct) -> None:
    """draw() fills the array with its slices, each of them once."""
    picture, _ = pictures(array)
    boxes = [
        numbers(part, "x", "y", "width", "height")
        for part in colored(picture)
    ]
    areas = [w * h for _, _, w, h in boxes]
    width, height = numbers(picture, "width", "height")

    assert len(boxes) == len({*map(tuple, boxes)})
    assert len(boxes) == len({*regions_of(array).values()})
    np.testing.assert_allclose(areas, areas[0], rtol=0.1)
    for x, y, w, h in boxes:
        assert 0 <= x <= x + w <= width + 0.5
        assert 0 <= y <= y + h <= height + 0.5


@given(placed())
def test_the_picture_of_the_devices(array: jax.ShapeDtypeStruct) -> None:
    """draw() gives two devices one color where they hold one slice."""
    _, picture = pictures(array)
    colors = [part.get("fill") for part in colored(picture)]
    ids = [
        int(part.text) for part in picture if (part.text or "").isdigit()
    ]
    held = regions_of(array)
    pairs = {(held[n], color) for n, color in zip(ids, colors, strict=True)}

    assert {*ids} == {*held}
    assert len(pairs) == len({*held.values()}) == len({*colors})


def test_the_text_is_the_alternative_of_the_picture() -> None:
    """draw() gives a screen reader the text that it prints."""
    x = jnp.ones((4, 6))
    figure = ElementTree.fromstring(draw(x)._repr_html_())
    image = figure.find("div")

    assert image.get("role") == "img"
    assert image.get("aria-label").split() == repr(draw(x)).split()
    assert repr(draw(x)) == (
        "float32[4,6] one device: 0\n  device 0: [0:4, 0:6]"
    )


def test_an_array_on_one_device_of_eight() -> None:
    """draw() leaves the devices empty that hold nothing."""
    _, devices = pictures(jax.device_put(jnp.ones(3), jax.devices()[5]))
    labels = [part.text for part in devices if part.text]

    assert len(colored(devices)) == 1
    assert labels == [str(number) for number in range(8)]


def test_the_picture_of_the_readme_is_drawn() -> None:
    """draw() gives the picture of the README, with its text as title."""
    drawing = draw({"kernel": abstract((64, 64), None, "model")})
    picture = PICTURE.read_text("utf-8")

    assert picture == drawing.svg()
    assert ElementTree.fromstring(picture)[0].text == repr(drawing)


def test_a_tree_has_a_picture_for_each_array() -> None:
    """draw() gives each array a figure with its path, escaped."""
    page = draw({"a": jnp.ones(2), "<b>": jnp.ones((2, 2))})._repr_html_()

    assert page.count("<figure") == 2
    assert "<code>a float32[2]" in page
    assert "&lt;b&gt; float32[2,2]" in page


def test_an_empty_array_is_drawn() -> None:
    """draw() gives an empty array one slice, which every device holds."""
    x = abstract((0, 4), "data")
    whole, devices = pictures(x)

    assert len(colored(whole)) == 1
    assert len(colored(devices)) == 8
    assert repr(draw(x)).endswith("devices 0-7: [0:0, 0:4]")


@given(placed())
def test_an_abstract_mesh(array: jax.ShapeDtypeStruct) -> None:
    """draw() of an abstract mesh is the drawing of its devices."""
    sharding = array.sharding
    mesh = sharding.mesh.abstract_mesh
    plan = jax.ShapeDtypeStruct(
        array.shape,
        array.dtype,
        sharding=NamedSharding(mesh, sharding.spec),
    )

    assert repr(draw(plan)) == repr(draw(array))
    assert draw(plan).svg() == draw(array).svg()


def test_a_sum_that_is_not_reduced() -> None:
    """draw() tells devices with terms of a sum from devices with copies."""
    mesh = jax.make_mesh((8,), ("model",), (AxisType.Explicit,))
    x = jax.device_put(jnp.ones(8), NamedSharding(mesh, P("model")))
    total = NamedSharding(mesh, P(unreduced={"model"}))
    with jax.set_mesh(mesh):
        drawing = draw(jnp.einsum("a,a->", x, x, out_sharding=total))

    assert repr(drawing).endswith(
        "devices 0-7: [], unreduced: 8 different values"
    )
    for picture in (drawing._repr_html_(), drawing.svg()):
        assert picture.count(">≠<") == 8
    whole = draw(jax.device_put(jnp.ones(()), NamedSharding(mesh, P())))
    assert "≠" not in whole._repr_html_() + repr(whole)


def test_a_sum_of_fewer_terms_than_devices() -> None:
    """draw() says how many values the devices of one slice hold."""
    mesh = AbstractMesh((2, 4), ("data", "model"), (AxisType.Explicit,) * 2)
    spec = P("model", unreduced={"data"})
    array = jax.ShapeDtypeStruct(
        (8,), jnp.float32, sharding=NamedSharding(mesh, spec)
    )
    lines = repr(draw(array)).splitlines()

    assert lines[1] == (
        "  devices 0 4: [0:2], unreduced: 2 different values"
    )


def test_an_array_that_was_donated() -> None:
    """draw() refuses an array that was deleted."""
    x = jnp.ones(8)
    x.delete()

    with pytest.raises(ValueError, match="'x' was deleted"):
        draw({"x": x})


def test_an_array_on_no_device() -> None:
    """draw() refuses a NumPy array, and says what to do."""
    with pytest.raises(ValueError, match="'x' is on no device: place it"):
        draw({"x": np.ones(3)})


def test_a_large_tree_is_a_small_page() -> None:
    """draw() leaves out what a page can't show, and says how much."""
    mesh = AbstractMesh((16, 32), ("data", "model"))
    sharding = NamedSharding(mesh, P("data", "model"))
    array = jax.ShapeDtypeStruct((512, 512), jnp.float32, sharding=sharding)
    drawing = draw({f"k{i}": array for i in range(10_000)})

    assert len(drawing._repr_html_()) < 200 * 1024
    assert "and 9999 more arrays: draw a part" in repr(drawing)
    layers = draw([{"kernel": array} for _ in range(10_000)])
    assert repr(layers).startswith("*.kernel ×10000 float32[512@data")


def test_slices_have_colors_of_their_own() -> None:
    """draw() tells more slices apart than there are named colors."""
    mesh = AbstractMesh((8, 4), ("data", "model"))
    sharding = NamedSharding(mesh, P(("data", "model")))
    array = jax.ShapeDtypeStruct((64,), jnp.float32, sharding=sharding)
    figure, _ = draw(array)._repr_html_().split("</svg>", 1)

    assert (
        len(set(re.findall(r'fill="(#\w+|hsl[^"]+)" stroke', figure))) == 32
    )
