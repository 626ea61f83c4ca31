"""The guide to errors explains what people meet, in their words."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from messages import QUOTED

from shardbook import book
from shardbook_site.cells import CELL
from shardbook_site.run_page import DOCS

SECTIONS = book.explanations()
KINDS = [*DOCS.glob("guides/errors/*.md")]


def filled_later() -> object:
    """Make a Module that fills a list after it assigned it."""

    class Stack(nnx.Module):
        def __init__(self) -> None:
            self.layers: list[nnx.Module] = []
            self.layers.append(nnx.Linear(2, 2, rngs=nnx.Rngs(0)))

    return Stack()


def forbidden() -> object:
    """Sum over an axis over which nothing may be summed."""

    def total(x: jax.Array) -> jax.Array:
        with jax.sharding.no_collectives({"data"}):
            return jax.lax.psum(x, "data")

    mesh = jax.make_mesh((1,), ("data",))
    return jax.shard_map(total, mesh=mesh, in_specs=P(), out_specs=P())(
        jnp.ones(2)
    )


def varying(x: jax.Array) -> jax.Array:
    """Mark a value as varying over an axis."""
    return jax.lax.pcast(x, "data", to="varying")


def varying_already() -> object:
    """Mark a value twice."""

    def twice(x: jax.Array) -> jax.Array:
        return varying(varying(x))

    mesh = jax.make_mesh((1,), ("data",))
    return jax.shard_map(twice, mesh=mesh, in_specs=P(), out_specs=P())(
        jnp.ones(2)
    )


def deleted() -> object:
    """Read an array that was donated."""
    x = jnp.ones(2)
    jax.jit(jnp.sin, donate_argnums=0)(x)
    return x + 1


def wants_a_tuple() -> object:
    """Give the shardings of one output as if there were several."""
    return nnx.jit(jnp.sin, out_shardings=(None,))(jnp.ones(2))


def of_a_method() -> object:
    """Map a method that is bound to its Module."""
    mesh = jax.make_mesh((1,), ("data",))
    layer = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
    call: Callable[[jax.Array], jax.Array] = layer.__call__
    return nnx.shard_map(call, mesh=mesh, in_specs=P(), out_specs=P())


def over_one_device() -> object:
    """Sum over the only named axis, which has one device."""
    auto = (AxisType.Auto,) * 2
    mesh = jax.make_mesh((jax.device_count(), 1), ("data", "model"), auto)
    total = jax.shard_map(
        lambda x: jax.lax.psum(x, "model"),
        mesh=mesh,
        in_specs=P(None, "model"),
        out_specs=P(),
        axis_names={"model"},
    )
    rows = jax.device_put(jnp.ones((16, 8)), NamedSharding(mesh, P("data")))
    return jax.jit(total)(rows)


RAISED: dict[Callable[[], object], str] = {
    filled_later: "Found data on value",
    deleted: "Array has been deleted",
    wants_a_tuple: "pytree structure error",
    lambda: jnp.zeros((2**20, 2**30)): "Out of memory",
    lambda: jax.lax.psum(1.0, "data"): "Found an unbound axis name",
    lambda: varying(jnp.ones(2)): "an unbound axis name",
    varying_already: "Unsupported pcast from=varying",
    of_a_method: "does not support bound methods",
    over_one_device: "Cross-partition allreduce must be in",
}
if jax.__version_info__ >= (0, 12):
    RAISED[forbidden] = "is forbidden by `no_collectives`"


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_is_explained(message: str) -> None:
    """The words of other versions, and of clusters, have a section."""
    assert QUOTED[message] in book.explained(f"ValueError: {message}")


@pytest.mark.parametrize("mistake", RAISED, ids=RAISED.values())
def test_an_error_is_explained(mistake: Callable[[], object]) -> None:
    """What the installed versions raise has a section."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of each kind
        mistake()

    assert RAISED[mistake] in book.explained(str(raised.value))


def test_the_guide_requires_the_errors_that_it_explains() -> None:
    """A cell has the words of each heading, and what "Also:" adds."""
    for section in SECTIONS:
        code = "".join(CELL.findall(section.text))
        lines = [
            line
            for line in section.lines
            if not line.startswith("Formerly: ")
        ]
        for _, words in book.CODE.findall("\n".join(lines)):
            assert words in code, f"no cell raises {words!r}"
    assert len(SECTIONS) > 70


def test_a_message_is_in_the_guide_once() -> None:
    """Each has one section, and code in code keeps its backticks."""
    pages = "".join(path.read_text("utf-8") for path in KINDS)
    found = [words for each in SECTIONS for words in each.messages]

    assert len(found) == len({*found})
    for section in SECTIONS:
        old = section.title == "Fixed in the tested versions"
        table = section.page == "guides/errors/removed"
        assert section.title in section.messages or old or table
    for words in found:
        assert pages.count(f"`{words}`") <= 1, words
    assert "is forbidden by `no_collectives`" in found
    assert book.explained("nothing that anyone ever raised") == ""


def test_the_guide_has_each_page_of_errors() -> None:
    """Sections of a page are found if the contents of the guide name it."""
    named = {section.page for section in SECTIONS}

    assert named == {f"guides/errors/{path.stem}" for path in KINDS}
