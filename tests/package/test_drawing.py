"""What draw() shows, in pictures and in words."""

import re
from pathlib import Path
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
from placed import MESHES, placed

from shardbook import draw
from shardbook.drawing import COLOURS

PICTURE = Path(__file__).parents[2] / "docs/_static/sharded-kernel.svg"
Region = tuple[tuple[int, int], ...]


def words_of(text: str) -> dict[int, Region]:
    """Read back from a drawing's words what each device holds."""
    held = {}
    for line in text.splitlines()[1:]:
        ids, where = re.fullmatch(
            r"  devices? (.+): \[(.*)\]", line
        ).groups()
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


def truth(array: jax.Array) -> dict[int, Region]:
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


def coloured(picture: ElementTree.Element) -> list[ElementTree.Element]:
    """Give the rectangles that stand for slices."""
    return [part for part in picture if part.get("fill") in COLOURS]


def numbers(part: ElementTree.Element, *names: str) -> list[float]:
    """Give some of the attributes of an element."""
    return [float(part.get(name)) for name in names]


@given(placed())
def test_the_words_say_what_jax_says(array: jax.Array) -> None:
    """Each device has the slice that JAX gives it."""
    assert words_of(repr(draw(array))) == truth(array)


@given(placed())
def test_the_title_is_the_type(array: jax.ShapeDtypeStruct) -> None:
    """It is what jax.typeof gives where a mesh is explicit."""
    shape, dtype, mesh = array.shape, array.dtype, array.sharding.mesh
    explicit = (AxisType.Explicit,) * len(mesh.axis_names)
    mesh = AbstractMesh(mesh.axis_sizes, mesh.axis_names, explicit)
    sharding = NamedSharding(mesh, array.sharding.spec)
    typed = jax.core.ShapedArray(shape, dtype, sharding=sharding)

    assert repr(draw(array)).startswith(f"{typed} P(")


@given(placed())
def test_the_picture_shows_each_slice_once(array: jax.Array) -> None:
    """The slices fill the array, and each device has one of them."""
    whole, devices = pictures(array)
    held = truth(array)
    slices = coloured(whole)
    areas = [np.prod(numbers(part, "width", "height")) for part in slices]
    width, height = numbers(whole, "width", "height")

    assert len(slices) == len(set(held.values()))
    assert len({tuple(part.attrib.items()) for part in slices}) == len(
        slices
    )
    assert len(coloured(devices)) == len(held)
    np.testing.assert_allclose(areas, areas[0], rtol=0.1)
    for part in slices:
        x, y, w, h = numbers(part, "x", "y", "width", "height")
        assert 0 <= x <= x + w <= width + 0.5
        assert 0 <= y <= y + h <= height + 0.5


@given(placed())
def test_the_same_colour_is_the_same_slice(array: jax.Array) -> None:
    """Two devices have one colour if, and only if, they hold the same."""
    _, picture = pictures(array)
    rows = [part.get("fill") for part in coloured(picture)]
    ids = [
        int(part.text) for part in picture if (part.text or "").isdigit()
    ]
    held = truth(array)
    pairs = {(held[device], rows[n]) for n, device in enumerate(ids)}

    assert len(ids) == len(rows) == len(held)
    assert len(pairs) == len(set(held.values())) == len(set(rows))


def test_the_words_are_the_alternative_of_the_picture() -> None:
    """Who can't see the picture is told the same."""
    x = jnp.ones((4, 6))
    figure = ElementTree.fromstring(draw(x)._repr_html_())
    image = figure.find("div")

    assert image.get("role") == "img"
    assert image.get("aria-label").split() == repr(draw(x)).split()
    assert repr(draw(x)) == (
        "float32[4,6] one device: 0\n  device 0: [0:4, 0:6]"
    )


def test_an_array_on_one_device_of_eight() -> None:
    """The devices that hold nothing are drawn empty."""
    _, devices = pictures(jax.device_put(jnp.ones(3), jax.devices()[5]))
    labels = [part.text for part in devices if part.text]

    assert len(coloured(devices)) == 1
    assert labels == [str(number) for number in range(8)]


def test_the_picture_of_the_readme_is_drawn() -> None:
    """The file is what draw() gives today, and says so in words."""
    sharding = NamedSharding(MESHES[1], P(None, "model"))
    kernel = jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=sharding)
    drawing = draw({"kernel": kernel})
    picture = PICTURE.read_text("utf-8")

    assert picture == drawing.svg()
    assert ElementTree.fromstring(picture)[0].text == repr(drawing)


def test_a_tree_has_a_picture_for_each_array() -> None:
    """Each with its name."""
    page = draw({"a": jnp.ones(2), "<b>": jnp.ones((2, 2))})._repr_html_()

    assert page.count("<figure") == 2
    assert "<code>a float32[2]" in page
    assert "&lt;b&gt; float32[2,2]" in page


def test_the_axes_are_named() -> None:
    """Sizes carry the mesh axes that cut them, as JAX prints them."""
    sharding = NamedSharding(MESHES[1], P("data", "model"))
    x = jax.ShapeDtypeStruct((4, 8), jnp.float32, sharding=sharding)
    whole, devices = pictures(x)

    assert {part.text for part in whole} >= {"8@model", "4@data"}
    assert {part.text for part in devices} >= {"model=4", "data=2"}
    assert repr(draw(x)).startswith("float32[4@data,8@model] P('data', 'mo")


def test_an_empty_array_is_drawn() -> None:
    """It has one slice, with nothing in it."""
    sharding = NamedSharding(MESHES[1], P("data"))
    x = jax.ShapeDtypeStruct((0, 4), jnp.float32, sharding=sharding)
    whole, devices = pictures(x)

    assert len(coloured(whole)) == 1
    assert len(coloured(devices)) == 8
    assert repr(draw(x)).endswith("devices 0-7: [0:0, 0:4]")


def test_what_is_on_no_device_is_refused() -> None:
    """The message says what to do."""
    with pytest.raises(ValueError, match="'x' is on no device: place it"):
        draw({"x": np.ones(3)})
