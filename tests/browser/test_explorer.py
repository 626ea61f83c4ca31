"""The layout explorer counts and draws as JAX does, for all readers."""

import itertools
import math
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
from playwright.sync_api import Page, expect

from shardscope import collectives, draw

NAMES = ("data", "model", "expert", "x")
DTYPES = ("float32", "bfloat16", "float8_e4m3fn", "complex64", "bool")
# What the page is asked for each case, as text that a reader would write.
LAY_OUT = """(cases) => cases.map(each => {
  const {shape, mesh, specs, dtype, itemsize} = each;
  const it = window.shardbook.explorer;
  try {
    const layouts = specs.map(spec => it.layOut(
      it.parseShape(shape), it.parseMesh(mesh), it.parseSpec(spec),
      dtype, itemsize));
    return {
      layouts: layouts.map(layout => ({
        ...layout, places: null, holds: null, label: it.label(layout),
      })),
      move: layouts[1] && it.move(...layouts),
    };
  } catch (error) {
    return {jax: error.jax, message: error.message};
  }
})"""


@pytest.fixture(scope="module", autouse=True)
def _devices() -> None:
    """Set up as many devices as the explorer draws."""
    jax.config.update("jax_num_cpu_devices", 64)
    assert jax.device_count() == 64


@pytest.fixture
def explorer(page: Page) -> Page:
    """Open the page of the explorer."""
    page.goto("explorer.html")
    return page


class Case:
    """A shape, a mesh and specs, right or wrong."""

    def __init__(self, dice: random.Random, specs: int = 1) -> None:
        names = dice.sample(NAMES, dice.randint(1, 3))
        self.mesh = {name: dice.choice((1, 2, 2, 3, 4)) for name in names}
        self.devices = math.prod(self.mesh.values())
        sizes = (0, 1, 6, 7, 12, 16, 24, 48)
        weights = (1, 1, 2, 1, 5, 5, 10, 10)
        rank = dice.choice((0, 1, 1, 2, 2, 2, 3, 4))
        self.shape = tuple(dice.choices(sizes, weights, k=rank))
        self.dtype = dice.choice(DTYPES)
        self.itemsize = jnp.dtype(self.dtype).itemsize
        self.specs = [self._spec(dice) for _ in range(specs)]

    def _spec(self, dice: random.Random) -> str:
        """Write a spec: mostly right, sometimes too long or misspelt."""
        names = list(self.mesh)
        dice.shuffle(names)
        if dice.random() < 0.15:
            names.append(dice.choice(NAMES))
        length = len(self.shape) + dice.choice((-1, 0, 0, 0, 0, 0, 1))
        entries = []
        for _ in range(length):
            count = dice.choice((0, 0, 1, 1, 2, 3))
            part, names = names[:count], names[count:]
            if count == 1 and part and dice.random() < 0.5:
                entries.append(part[0])
            else:
                entries.append(tuple(part) or dice.choice((None, ())))
        words = ", ".join(map(repr, entries))
        return f"P({words})".replace("'", dice.choice("'\""))

    def as_text(self) -> dict[str, Any]:
        """Give what the page is given."""
        mesh = ", ".join(f"{n}:{size}" for n, size in self.mesh.items())
        return {**vars(self), "shape": str(self.shape), "mesh": mesh}

    def sharding(self, spec: str) -> NamedSharding:
        """Make the sharding on real devices."""
        devices = np.array(jax.devices()[: self.devices])
        mesh = Mesh(
            devices.reshape(*self.mesh.values()),
            tuple(self.mesh),
            axis_types=(AxisType.Auto,) * len(self.mesh),
        )
        return NamedSharding(mesh, eval(spec, {"P": P}))

    def error(self) -> Exception | None:
        """Place a real array; give what JAX raises, if anything."""
        try:
            for spec in self.specs:
                array = np.broadcast_to(np.int8(0), self.shape)
                jax.device_put(array, self.sharding(spec))
        except Exception as error:
            return error
        return None

    def regions(self, spec: str) -> list[list[list[int]]]:
        """Ask JAX which part each device holds."""
        indices = self.sharding(spec).devices_indices_map(self.shape)
        return [
            [
                list(part.indices(size)[:2])
                for part, size in zip(
                    indices[device], self.shape, strict=True
                )
            ]
            for device in jax.devices()[: self.devices]
        ]


def ask(page: Page, cases: list[Case]) -> list[dict[str, Any]]:
    """Give the page's answers to all cases, in one call."""
    return page.evaluate(LAY_OUT, [case.as_text() for case in cases])


def right_cases(
    page: Page, seed: int, number: int, specs: int
) -> list[tuple[Case, dict[str, Any]]]:
    """Give random cases that have an answer, with the answer."""
    dice = random.Random(seed)
    cases = [Case(dice, specs) for _ in range(number)]
    answers = zip(cases, ask(page, cases), strict=True)
    return [
        (case, answer) for case, answer in answers if "layouts" in answer
    ]


def test_the_arithmetic_is_that_of_jax(explorer: Page) -> None:
    """Slices, shapes, bytes and copies; or the same error."""
    dice = random.Random(0)
    cases = [Case(dice) for _ in range(1500)]
    outcomes = Counter()
    for case, answer in zip(cases, ask(explorer, cases), strict=True):
        told = case.as_text()
        if error := case.error():
            kind, words = answer["jax"].split(": … ")
            outcomes[words.split()[0]] += 1
            assert kind == type(error).__name__, told
            assert words in str(error), told
            continue
        outcomes["right"] += 1
        assert "layouts" in answer, (told, answer)
        (layout,) = answer["layouts"]
        (spec,) = case.specs
        regions = case.regions(spec)
        shard_shape = case.sharding(spec).shard_shape(case.shape)
        bytes_each = math.prod(shard_shape) * case.itemsize

        assert layout["regions"] == regions, told
        assert layout["shardShape"] == list(shard_shape), told
        assert layout["bytes"] == bytes_each, told
        assert layout["total"] == bytes_each * case.devices, told
        if math.prod(case.shape):
            times = set(Counter(map(str, regions)).values())
            assert times == {layout["copies"]}, told
            over = math.prod(case.mesh[name] for name in layout["over"])
            assert layout["copies"] == over, told

    # Each kind of answer was seen often: the four errors, and none.
    assert len(outcomes) == 5
    assert min(outcomes.values()) > 30, outcomes


def test_what_moves_is_counted_as_elements(explorer: Page) -> None:
    """Each device needs what is in its new slice and not in its old."""
    cases = right_cases(explorer, seed=1, number=800, specs=2)
    small = [each for each in cases if math.prod(each[0].shape) < 2000]
    for case, answer in small:
        received = []
        for before, after in zip(
            *map(case.regions, case.specs), strict=True
        ):
            missing = np.zeros(case.shape, bool)
            missing[tuple(slice(*span) for span in after)] = True
            missing[tuple(slice(*span) for span in before)] = False
            received.append(int(missing.sum()) * case.itemsize)

        assert answer["move"]["received"] == received, case.as_text()
        assert answer["move"]["total"] == sum(received), case.as_text()

    assert len(small) > 150


class Pair(Case):
    """An array of two axes on eight devices, laid out in two ways."""

    def __init__(self, *specs: str) -> None:
        self.mesh, self.devices = {"data": 2, "model": 4}, 8
        self.shape, self.dtype, self.itemsize = (16, 8), "float32", 4
        self.specs = list(specs)


def test_a_move_has_the_name_that_xla_gives_it(explorer: Page) -> None:
    """Where the explorer names a collective, the program has that one."""
    parts = [(), ("data",), ("model",), ("data", "model")]
    parts.append(parts[-1][::-1])
    specs = [
        f"P({one}, {other})"
        for one, other in itertools.product(parts, parts)
        if not {*one} & {*other}
    ]
    pairs = [Pair(*two) for two in itertools.product(specs, specs)]
    seen = Counter()
    for case, answer in zip(pairs, ask(explorer, pairs), strict=True):
        name = answer["move"]["name"]
        if not name or seen[name] == 4:
            continue
        seen[name] += 1
        source, target = map(case.sharding, case.specs)
        identity = jax.jit(
            lambda x: x, in_shardings=source, out_shardings=target
        )
        array = jax.ShapeDtypeStruct(case.shape, jnp.float32)
        expected = {name} - {"same", "slice"}

        assert set(collectives(identity, array)) == expected, case.specs

    assert set(seen.values()) == {4}, seen
    assert len(seen) == 5, seen


def test_the_slices_are_those_of_the_pages(explorer: Page) -> None:
    """The explorer says and colors what shardscope.draw does."""
    cases = right_cases(explorer, seed=3, number=250, specs=1)
    for case, answer in cases:
        array = jax.ShapeDtypeStruct(
            case.shape, case.dtype, sharding=case.sharding(case.specs[0])
        )
        drawing = draw(array)
        figure = ElementTree.fromstring(drawing._repr_html_())
        rects = figure[0][0].iter("{http://www.w3.org/2000/svg}rect")
        (layout,) = answer["layouts"]
        # A tuple of one name and the name alone are the same spec.
        words = layout["label"].partition("\n")[2]

        assert words == repr(drawing).partition("\n")[2], case.as_text()
        assert [part["color"] for part in layout["parts"]] == [
            rect.get("fill") for rect in rects
        ], case.as_text()

    assert len(cases) > 80


def test_each_device_shows_its_slice(explorer: Page) -> None:
    """The picture of a device has its slice where the array has it."""
    explorer.locator("[name=shape]").fill("8, 4, 16")
    explorer.locator("[name=mesh]").fill("x:2, y:2, z:2")
    array = explorer.locator(".explorer-frame > .explorer-grid > span")
    devices = explorer.locator(".explorer-devices .explorer-grid > span")
    place = (
        "each => each.map(it => [it.style.gridArea, it.style.background])"
    )
    for spec in ("P()", "P(('x', 'y'))", "P('x', None, ('z', 'y'))"):
        explorer.locator("[name=spec]").fill(spec)
        slices = dict(array.evaluate_all(place))
        held = devices.evaluate_all(place)

        assert len(held) == 8
        assert dict(held) == slices
        assert len(slices) == array.count()


@pytest.mark.parametrize(
    "mesh",
    [
        {"data": 2, "model": 4},
        {"data": 1, "model": 8},
        {"data": 8, "model": 1},
        {"x": 2, "y": 1, "z": 4},
        {"data": 1, "model": 1},
    ],
)
def test_the_sides_of_a_mesh_are_those_of_the_pages(
    explorer: Page, mesh: dict[str, int]
) -> None:
    """The explorer names and arranges the devices as shardscope.draw does.

    An axis of one device is no side of a picture.
    """
    case = Case(random.Random(0))
    case.mesh, case.shape = mesh, (16, 16)
    case.devices = math.prod(mesh.values())
    array = jax.ShapeDtypeStruct(
        case.shape, "float32", sharding=case.sharding("P()")
    )
    figure = ElementTree.fromstring(draw(array)._repr_html_())
    words = [
        (each.text or "", float(each.get("y", 0)))
        for each in figure[0][1].iter("{http://www.w3.org/2000/svg}text")
    ]
    rows = {y for word, y in words if word.isdigit()}
    for name, text in (
        *(("shape", "16, 16"), ("spec", "P()")),
        ("mesh", ", ".join(f"{k}:{size}" for k, size in mesh.items())),
    ):
        explorer.locator(f"[name={name}]").fill(text)
    frame = explorer.locator(".explorer-frame").nth(1)
    sides = frame.locator("> span").all_inner_texts()
    tops = frame.locator(".explorer-devices > div").evaluate_all(
        "each => each.map(it => it.getBoundingClientRect().top)"
    )

    assert {*sides} - {""} == {
        word for word, _ in words if word and not word.isdigit()
    }
    assert len({*tops}) == len(rows)


def test_by_keyboard(explorer: Page) -> None:
    """Tab, Space and typing are enough, and the answer follows."""
    answer = explorer.get_by_role("status")
    explorer.get_by_label("Shape").focus()
    for _ in range(3):
        explorer.keyboard.press("Tab")
    spec = explorer.locator("[name=spec]")
    expect(spec).to_be_focused()
    explorer.keyboard.press("Tab")
    explorer.keyboard.press("Space")

    expect(spec).to_have_value('P("data", "model")')
    expect(answer).to_contain_text("a slice (4, 4) of the array (8, 16)")
    pressed = explorer.locator("button:focus")
    expect(pressed).to_have_text("data")
    expect(pressed).to_have_attribute("aria-pressed", "true")

    explorer.keyboard.press("Shift+Tab")
    explorer.keyboard.press("Control+A")
    explorer.keyboard.type('P("data", "data")')
    expect(answer).to_contain_text("DuplicateSpecError")
    result = explorer.locator(".explorer-result")
    expect(result).to_have_attribute("inert", "")
    explorer.keyboard.press("Control+A")
    explorer.keyboard.type('P(("model", "data"))')
    expect(answer).to_contain_text("a slice (1, 16)")


def test_the_answer_says_what_the_picture_shows(explorer: Page) -> None:
    """The words, the image's name and the table agree."""
    explorer.locator("[name=to]").fill("P()")
    answer = explorer.get_by_role("status").inner_text()
    image = explorer.locator(".explorer-pictures [role=img]").first
    rows = explorer.locator(".explorer-table tbody tr")

    assert answer.endswith(
        "To reach P(), each device receives 384 bytes, 3,072 bytes in all, "
        "by all-gather."
    )
    assert "  devices 0 4: [0:8, 0:4]" in image.get_attribute("aria-label")
    assert rows.count() == 8
    assert rows.nth(5).locator("td").all_inner_texts() == [
        *("5", "1", "1", "[:, 4:8]", "[:, :]", "384 bytes")
    ]


def test_the_address_keeps_the_choice(explorer: Page) -> None:
    """A link to what one reader sees shows it to another."""
    explorer.locator("[name=shape]").fill("16, 8, 4")
    explorer.locator("[name=mesh]").fill("x:2, y:2, z:2")
    explorer.locator("[name=spec]").fill("P(('z', \"x\"), None, 'y')")
    explorer.locator("[name=to]").fill("P('x')")
    explorer.locator("select").select_option("bfloat16")
    answer = explorer.get_by_role("status").inner_text()
    assert explorer.url.endswith(
        "explorer.html#shape=16,8,4&mesh=x:2,y:2,z:2&dtype=bfloat16"
        "&spec=P(('z','x'),None,'y')&to=P('x')"
    )

    with explorer.context.new_page() as other:
        other.goto(explorer.url)
        assert other.get_by_role("status").inner_text() == answer


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("#shape=eight", "“eight” is not a shape"),
        ("#mesh=%3Cimg src=x onerror=alert(1)%3E", "is not a mesh"),
        ("#spec=%E0%A4%A", "is not a spec"),
        ("#dtype=float3", "This dtype is not known."),
        ("#to=P('nowhere')", "The mesh has no axis “nowhere”."),
        ("#shape=90000000000,90000000000", "too many bytes"),
        ("#no-such-place", "Each of 8 devices holds"),
    ],
)
def test_a_bad_address(page: Page, address: str, words: str) -> None:
    """An error is shown in words, and the explorer goes on working."""
    page.goto(f"explorer.html{address}")
    answer = page.locator(".explorer-answer")

    expect(answer).to_contain_text(words)
    for name, text in {
        "shape": "8",
        "mesh": "data:2",
        "spec": "P('data')",
        "to": "",
    }.items():
        page.locator(f"[name={name}]").fill(text)
    page.locator("select").select_option("int8")
    expect(answer).to_have_text(
        "Each of 2 devices holds a slice (4,) of the array (8,), 4 bytes; "
        "8 bytes in all. Nothing is replicated."
    )


def test_the_code_runs(explorer: Page) -> None:
    """The copied code is a program that prints the shapes of the shards."""
    explorer.locator("[name=to]").fill("P('model')")
    explorer.locator(".shardbook-explorer .copybtn").focus()
    explorer.keyboard.press("Enter")
    explorer.wait_for_function(
        "navigator.clipboard.readText().then(it => it.includes('target'))"
    )
    code = explorer.evaluate("navigator.clipboard.readText()")
    result = subprocess.run(
        (sys.executable, "-I", "-c", code),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert result.stdout == "(8, 4)\n(2, 16)\n"
    assert max(map(len, code.splitlines())) <= 76


def test_an_explorer_in_a_page_leaves_its_address_alone(
    page: Page, html: Path, pages: list[str]
) -> None:
    """It offers a link instead, which shows the same choice."""
    name = next(
        name
        for name in pages
        if name != "explorer.html"
        and 'class="shardbook-explorer"' in (html / name).read_text("utf-8")
    )
    page.goto(name)
    address = page.url
    page.locator("[name=spec]").first.fill("P()")
    answer = page.locator(".explorer-answer").first.inner_text()
    assert page.url == address
    page.locator(".explorer-link").first.click()
    page.wait_for_url("**/explorer.html#*")
    assert page.locator(".explorer-answer").inner_text() == answer


def test_without_a_script(scriptless: Page) -> None:
    """The page says what is missing, and shows the first choice."""
    scriptless.goto("explorer.html")
    still = scriptless.locator(".explorer-still")

    expect(still).to_contain_text("With JavaScript, you choose")
    expect(still.locator("figcaption")).to_contain_text("(8, 4), 128 bytes")
    expect(still.locator("svg").first).to_be_visible()
    expect(scriptless.locator(".explorer-result")).to_be_hidden()
