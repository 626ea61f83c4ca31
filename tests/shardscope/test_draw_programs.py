"""What draw() shows of programs that are compared."""

import dataclasses
import html
from typing import Any
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from shardscope import Memory, Program, draw, program
from shardscope.drawings.figure import COLORS

pytestmark = pytest.mark.newest

SVG = "{http://www.w3.org/2000/svg}"


def of_product(*spec: Any) -> Program:
    """Compile a product with a matrix that is sharded by rows."""
    mesh = jax.make_mesh((2, 4), ("data", "model"), (AxisType.Auto,) * 2)
    rows = NamedSharding(mesh, P("model"))
    w = jax.device_put(jnp.ones((64, 16)), rows)
    x = jax.device_put(jnp.ones((8, 64)), NamedSharding(mesh, P(*spec)))
    return program(jnp.matmul, x, w)


def needing(total: int, chip: str) -> Program:
    """Give a program of so many bytes, compiled for a chip."""
    seen = program(jnp.sin, jnp.ones(4))
    memory = Memory(total, 0, 0, 0)
    return dataclasses.replace(seen, memory=memory, chip=chip)


def charts(programs: dict[str, Program]) -> list[ElementTree.Element]:
    """Give the pictures of a drawing."""
    figure = ElementTree.fromstring(draw(programs)._repr_html_())
    return figure.findall(f".//{SVG}svg")


def bars(chart: ElementTree.Element) -> list[tuple[str, float]]:
    """Give the color and the length of each part, without the legend."""
    parts = list(chart.iter(f"{SVG}rect"))
    return [
        (part.get("fill", ""), float(part.get("width", 0)))
        for part in parts
        if part.get("height") != "10.0"
    ]


def written(chart: ElementTree.Element) -> list[str]:
    """Give the words of a chart."""
    return [each.text or "" for each in chart.iter(f"{SVG}text")]


def test_the_bars_are_as_long_as_the_bytes() -> None:
    """Each part has its length, on one scale for all programs."""
    one, other = of_product(), of_product("data", "model")
    memory, sent = charts({"one": one, "other": other})
    lengths = [
        *(one.memory.arguments, one.memory.results, one.memory.temporaries),
        *(
            other.memory.arguments,
            other.memory.results,
            other.memory.temporaries,
        ),
    ]
    shown = [length for length in lengths if length]
    scale = max(one.memory.total, other.memory.total)

    assert [width for _, width in bars(memory)] == pytest.approx(
        [308 * length / scale for length in shown], abs=0.1
    )
    assert f"{other.memory.total:,}" in written(memory)
    total = max(one.sent(), other.sent())
    assert [width for _, width in bars(sent)] == pytest.approx(
        [308 * each.sent() / total for each in (one, other)], abs=0.1
    )
    assert one.sent() != other.sent()


def test_a_color_has_one_meaning() -> None:
    """The parts of the memory and the kinds of collectives differ."""
    memory, sent = charts({"a": of_product(), "b": of_product("data")})
    memory_colors = {color for color, _ in bars(memory)}
    sent_colors = {color for color, _ in bars(sent)}

    assert memory_colors <= {*COLORS[:3]}
    assert sent_colors
    assert sent_colors <= {*COLORS[3:]}


def test_what_is_donated_counts_once() -> None:
    """The results that take over an argument's memory have no part."""
    x = jnp.ones(1024)
    kept = program(jax.jit(lambda x: x + 1), x)
    donated = program(jax.jit(lambda x: x + 1, donate_argnums=0), x)
    drawing = draw({"kept": kept, "donated": donated})

    assert repr(drawing) == "\n".join(
        [
            "one call on one device",
            "bytes of memory",
            "  kept     8,192: 4,096 arguments, 4,096 results",
            "  donated  4,096: 4,096 arguments",
            "nothing is sent",
        ]
    )
    assert len(charts({"kept": kept, "donated": donated})) == 1


def test_the_words_of_the_picture_are_the_text() -> None:
    """A screen reader says what a terminal prints."""
    programs = {"x replicated": of_product(), "x < y": of_product("data")}
    drawing = draw(programs)
    figure = ElementTree.fromstring(drawing._repr_html_())
    image = figure.find("*[@role='img']")

    assert image is not None
    # XML reads a line break in an attribute as a blank.
    assert image.get("aria-label") == repr(drawing).replace("\n", " ")
    assert html.escape("x < y") in drawing._repr_html_()
    sent = programs["x replicated"].sent()
    assert f"  x replicated  {sent:,}: {sent:,} all-" in repr(drawing)


@pytest.mark.parametrize(("total", "marks"), [(90, 2), (80, 2), (70, 0)])
def test_a_line_where_the_chip_is_full(total: int, marks: int) -> None:
    """It is drawn if it is on the paper; words say what is too large."""
    chip = "NVIDIA H100 80GB HBM3"
    programs = {
        "one": needing(total * 10**9, chip),
        "other": needing(10**9, chip),
    }
    assert programs["one"].available == 80 * 10**9
    (chart,) = charts(programs)
    text = repr(draw(programs))

    assert len(list(chart.iter(f"{SVG}path"))) == marks
    assert ("more than the 80,000,000,000 of NVIDIA" in text) == (
        total > 80
    )
    assert ("the line is the memory" in text) == bool(marks)


def test_a_long_name_leaves_room_for_its_number() -> None:
    """The middle of the name goes; the words have all of it."""
    name = "the_step_" * 9
    programs = {name: program(jnp.sin, jnp.ones(1024))}
    (chart,) = charts(programs)
    cut = written(chart)[1]

    assert len(cut) < len(name)
    assert cut.startswith("the_step_")
    assert "..." in cut
    assert name in repr(draw(programs))


def test_what_data_decides_has_a_question_mark() -> None:
    """A collective in a loop without a known end is marked."""
    mesh = jax.make_mesh((8,), ("data",), (AxisType.Auto,))
    x = jax.device_put(jnp.ones(8), NamedSharding(mesh, P("data")))

    def halve(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda x: x.sum() > 1, lambda x: x / 2, x)

    text = repr(draw({"halve": program(halve, x)}))

    assert "all-reduce over data?" in text
    assert text.endswith("? depends on data")


def test_a_program_has_a_name_and_no_other_company() -> None:
    """The error says how to write it."""
    seen = program(jnp.sin, jnp.ones(4))

    for given, words in (
        ([seen], "Program"),
        ([seen, seen], "Program, Program"),
        ([[seen, seen]], "Program, Program"),
        ([{"a": seen}, seen], "Program, Program"),
        ([{"a": seen, "b": 1}], "Program, int in a dict"),
    ):
        with pytest.raises(TypeError) as caught:
            draw(*given)
        assert str(caught.value).endswith(
            f'got {words}. Write draw({{"before": one, "after": other}})'
        )
