"""why() names what shards a value, and where one loses an axis."""

import re
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax.sharding import (
    AbstractMesh,
    AxisType,
    NamedSharding,
    PartitionSpec as P,
)
from jaxlib.mlir import dialects
from training_step import MESH, array

from shardscope import Why, propagation, why
from shardscope.lines import name_of

LAYERS = 4
# FSDP over data, tensor parallelism over model.
GOOD = {
    "embed": P("data"),
    "query.kernel": P("data", "model"),
    "key.kernel": P("data", "model"),
    "value.kernel": P("data", "model"),
    "out.kernel": P("model", None, "data"),
    "up.kernel": P("data", "model"),
    "down.kernel": P("model", "data"),
    "head.kernel": P("data", "model"),
}
BATCH = P("data")
# Where the model constrains its values, and the specs there.
CONSTRAINED: dict[str, P] = {}


def constrain(x: jax.Array, where: str) -> jax.Array:
    """Constrain a value of the model, if the variant does."""
    if where not in CONSTRAINED:
        return x
    sharding = NamedSharding(MESH, CONSTRAINED[where])
    return jax.lax.with_sharding_constraint(x, sharding)


class Block(nnx.Module):
    """A block of a transformer."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        """Make the layers."""
        self.attention = nnx.MultiHeadAttention(
            4, 64, decode=False, use_bias=False, rngs=rngs
        )
        self.up = nnx.Linear(64, 128, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(128, 64, use_bias=False, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply the layers."""
        x = x + self.attention(x)
        hidden = nnx.silu(self.up(x))
        hidden = constrain(hidden, "hidden")
        x = x + self.down(hidden)
        return constrain(x, "activations")


class Model(nnx.Module):
    """A language model."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        """Make the layers."""
        self.embed = nnx.Embed(256, 64, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
        self.head = nnx.Linear(64, 256, use_bias=False, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Apply the layers."""
        x = self.embed(tokens)
        x = constrain(x, "activations")
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def loss(model: Model, tokens: jax.Array, mask: jax.Array) -> jax.Array:
    """Give the loss."""
    logits = constrain(model(tokens), "logits")
    each = optax.softmax_cross_entropy_with_integer_labels(logits, tokens)
    return (each * mask).mean()


def why_of(
    rules: dict[str, P] | None = None,
    tokens: P = BATCH,
    mask: P = BATCH,
    **constraints: P,
) -> Why:
    """Look at the gradient of the model, perhaps with a mistake."""
    model = nnx.eval_shape(lambda: Model(nnx.Rngs(0)))
    graph, state = nnx.split(model)

    def put(path: Any, leaf: Any) -> Any:
        name = ".".join(str(getattr(key, "key", "")) for key in path)
        found = [
            spec
            for rule, spec in {**GOOD, **(rules or {})}.items()
            if rule in name
        ]
        return array(leaf.shape, *found, leaf.dtype)

    placed = nnx.merge(graph, jax.tree_util.tree_map_with_path(put, state))
    CONSTRAINED.clear()
    CONSTRAINED.update(constraints)
    # What jax has traced has the constraints of another variant.
    jax.clear_caches()

    @nnx.jit
    def step(model: Model, tokens: jax.Array, mask: jax.Array) -> Any:
        return nnx.grad(loss)(model, tokens, mask)

    return why(
        step,
        placed,
        array((8, 16), tokens, "int32"),
        array((8, 16), mask, "float32"),
    )


def line_of(method: Callable[..., Any], text: str) -> str:
    """Name the line of a function that has a text."""
    code = method.__code__
    with open(code.co_filename) as file:
        lines = file.read().splitlines()
    at = next(
        number
        for number, line in enumerate(lines, 1)
        if number > code.co_firstlineno and text in line
    )
    return f"test_why.py:{at}"


EMBED = line_of(Model.__call__, "self.embed(tokens)")
UP = line_of(Block.__call__, "self.up(x)")
HIDDEN = line_of(Block.__call__, '"hidden"')
HEAD = line_of(Model.__call__, "self.head(x)")
LOGITS = line_of(loss, '"logits"')
ROWS = {"activations": P("data")}
LOST_BATCH = {"embed": P(None, "data")}


def test_a_good_layout_loses_nothing() -> None:
    """Weights that FSDP gathers are no loss."""
    for seen in (why_of(), why_of(**ROWS)):
        assert not [each for each in seen.lost() if each.kind == "lost"]
        assert "No loss found" in str(seen)


# What is said in the first lines: the line, or the argument.
MISTAKES: dict[str, tuple[Any, list[str]]] = {
    "a constraint is deleted": (
        lambda: why_of(LOST_BATCH),
        [EMBED, "'data', which tokens had", "of model.embed.embedding"],
    ),
    "a spec is transposed": (
        lambda: why_of({"down.kernel": P("data", "model")}, **ROWS),
        ["model.blocks.*.down.kernel"],
    ),
    "a rule is missing": (
        lambda: why_of({"up.kernel": P()}, **ROWS),
        [UP, "model.blocks.*.up.kernel is whole over 'model'"],
    ),
    "axes are swapped": (
        lambda: why_of({"up.kernel": P("model", "data")}, **ROWS),
        ["model.blocks.*.up.kernel"],
    ),
    "two arguments disagree": (
        lambda: why_of(mask=P("model"), **ROWS),
        ["because of mask"],
    ),
    "the batch is over another axis": (
        lambda: why_of(tokens=P("model"), **ROWS),
        [EMBED, "'model', which tokens had"],
    ),
    "logits are sharded over the vocabulary": (
        lambda: why_of(logits=P(None, None, "data"), **ROWS),
        [HEAD, f"from {LOGITS}"],
    ),
    "hidden values are sharded on the features": (
        lambda: why_of(hidden=P(None, None, "data"), **ROWS),
        [UP, f"from {HIDDEN}"],
    ),
    "hidden values are gathered": (
        lambda: why_of(hidden=P(), **ROWS),
        ["a constraint asks for it", f"from {HIDDEN}"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_first(mistake: str) -> None:
    """In one of the first six lines, by its line or its argument."""
    make, words = MISTAKES[mistake]
    first = " ".join(" ".join(str(make()).splitlines()[:6]).split())
    for each in words:
        assert each in first


def test_a_constraint_has_the_same_line_in_a_gradient() -> None:
    """Not that of the call that differentiates it."""

    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.square(constrain(x @ w, "hidden")).mean()

    CONSTRAINED.clear()
    CONSTRAINED["hidden"] = P(None, "data")
    w, x = array((64, 64), P()), array((16, 64), P("data"))
    first, *_ = why(jax.grad(loss), w, x).lost("data")
    line = line_of(constrain, "with_sharding_constraint")
    assert first.because == f"the constraint at {line}"


def test_the_margin_leads_to_what_decided() -> None:
    """Each axis of each value, to an argument or to a constraint's line."""
    seen = why_of(activations=P("data"))
    pages = [seen._repr_html_() for _ in range(2)]
    places = [re.findall(r' id="([^"]+)"', page) for page in pages]
    assert not {*places[0]} & {*places[1]}
    for page, own in zip(pages, places, strict=True):
        assert len({*own}) == len(own)
        for each in seen.rows:
            for axis, cause in each.because:
                title = f'title="{axis}: {cause}">{axis}</a>'
                (place,) = {
                    x.rpartition('href="#')[2].partition('"')[0]
                    for x in page.split(title)[:-1]
                }
                assert place in own
    line = line_of(constrain, "with_sharding_constraint")
    row = pages[0].partition(f'-{line.rpartition(":")[2]}">')[2]
    assert "with_sharding_constraint" in row.partition("</tr>")[0]


def test_the_margin_without_a_source() -> None:
    """Code may have no text, and files of one name have their own lines."""
    code, applied = "\ndef apply(x, w): return x @ w", []
    for folder in ("one", "two"):
        made: dict[str, Any] = {}
        exec(compile(code, f"/{folder}/model.py", "exec"), made)
        applied.append(made["apply"])
    first, second = applied
    x, w = array((16, 16), P("data")), array((16, 32), P(None, "model"))
    seen = why(lambda x, w: (first(x, w), second(2 * x, w)), x, w)
    page = seen._repr_html_()
    places = re.findall(r' id="([^"]+)"', page)
    assert len({*places}) == len(places)
    assert page.count("<td>2</td>") == 2


def test_out_shardings_are_named() -> None:
    """They reach back to the values before."""
    sharding = NamedSharding(MESH, P(None, "data"))
    function = jax.jit(lambda w, x: x @ w, out_shardings=sharding)
    seen = why(function, array((64, 32), P()), array((16, 64), P("data")))
    lost, whole = seen.lost("data")
    assert (lost.origin, lost.because) == ("x", "out_shardings")
    assert lost.after == "float32[16,32@data]"
    assert (whole.kind, whole.origin) == ("whole", "w")


def test_layers_that_repeat_are_one_row() -> None:
    """Those of a line, with what decided them."""
    seen = why_of()
    (up, *_), others = seen.of(UP), seen.of(EMBED)
    assert up.count == LAYERS
    assert up.type == "float32[8@data,16,128@model]"
    assert up.bytes_per_device == 8 * 16 * 128 * 4 // 8
    assert dict(up.because)["model"] == "model.blocks.*.up.kernel"
    assert up.source == "hidden = nnx.silu(self.up(x))"
    assert {name_of(each.line) for each in others} == {EMBED}


def test_what_is_lost_for_gradients_comes_last() -> None:
    """Below a heading of its own; and without a mesh nothing is lost."""
    text = str(why_of({"head.kernel": P("model", "data")}, **ROWS))
    head, _, last = text.partition("Lost for gradients")
    assert "for a gradient" in last
    assert "for a gradient" not in head
    assert str(why(jnp.sin, np.ones(8))).startswith("Nothing is sharded")


def test_weights_that_a_scan_gathers_are_not_lost() -> None:
    """Nor called values of the forward pass, where they are gradients."""

    def loss(weights: jax.Array, x: jax.Array) -> jax.Array:
        def layer(x: jax.Array, w: jax.Array) -> Any:
            return jnp.tanh(x @ w), None

        return jax.lax.scan(layer, x, weights)[0].sum()

    weights = array((4, 64, 64), P(None, None, "data"))
    seen = why(jax.grad(loss), weights, array((16, 64), P("data")))
    assert not [each for each in seen.lost() if each.kind == "lost"]
    assert [
        x.backward for x in seen.rows if x.operation == "dot_general"
    ] == [
        False,
        True,
        True,
    ]


def test_a_shard_map_is_named() -> None:
    """By its line; what is inside is left out, but not what comes out."""
    inside = jax.shard_map(
        lambda x: 2 * x, mesh=MESH, in_specs=P("data"), out_specs=P("data")
    )
    seen = why(lambda x, w: inside(x) @ w, array((16, 64), P()), np.eye(64))
    mapped, product = seen.rows
    assert mapped.type == "float32[16@data,64]"
    assert product.type == "float32[16@data,64]"
    assert product.because[0][1].startswith("the shard_map at test_why.py:")


def test_a_mesh_may_be_abstract() -> None:
    """Of more devices than there are, in a function, jit and nnx.jit."""
    auto = (AxisType.Auto,) * 2
    mesh = AbstractMesh((64, 8), ("data", "model"), axis_types=auto)
    x, w = (
        jax.ShapeDtypeStruct(shape, "float32", sharding=sharding)
        for shape, sharding in (
            ((512, 64), NamedSharding(mesh, P("data"))),
            ((64, 128), NamedSharding(mesh, P(None, "model"))),
        )
    )

    def product(x: jax.Array, w: jax.Array) -> jax.Array:
        return x @ w

    for function in (product, jax.jit(product), nnx.jit(product)):
        (value,) = why(function, x, w).rows
        assert value.type == "float32[512@data,128@model]"
        assert value.because == (("data", "x"), ("model", "w"))


def test_what_it_cannot_answer_is_refused() -> None:
    """With what was received, and what to do."""
    x = array((16, 64), P("data"))
    seen = why(lambda x: 2 * x, x)
    with pytest.raises(ValueError, match="the mesh has"):
        seen.lost("dta")
    with pytest.raises(ValueError, match="no value comes"):
        seen.of("train.py:1")
    compiled = jax.jit(jnp.sin).lower(x).compile()
    with pytest.raises(TypeError, match="a compiled program"):
        why(compiled)
    with pytest.raises(TypeError, match="takes a function"):
        why(3)  # type: ignore[arg-type]


def test_the_program_stays_as_it_was() -> None:
    """It compiles afterwards, to the same."""
    lowered = jax.jit(lambda x: jnp.sin(x).sum()).lower(
        array((16, 64), P("data"))
    )
    before = lowered.as_text()
    assert "argument" not in str(why(lowered))
    assert lowered.as_text() == before
    assert lowered.compile().as_text()


def test_without_shardy_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """And all else works."""
    for name in ("shardy", "inlining"):
        monkeypatch.delitem(sys.modules, f"{propagation.__name__}.{name}")
        monkeypatch.delattr(propagation, name)
    monkeypatch.setitem(sys.modules, "jaxlib.mlir.dialects.sdy", None)
    monkeypatch.delattr(dialects, "sdy")
    with pytest.raises(RuntimeError, match=r"why.* needs Shardy"):
        why(jnp.sin, array((16, 64), P("data")))
