"""Which argument a collective moves, and which lines called it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
from strategies import MESHES

from shardscope import Program, program
from shardscope.hlo import Module
from shardscope.programs.communication import communication

GRID = MESHES[1]
LINE = jax.make_mesh((8,), ("data",), (AxisType.Auto,))
EXPLICIT = jax.make_mesh((8,), ("data",), (AxisType.Explicit,))
LAYERS = 3


def struct(
    shape: tuple[int, ...], *spec: Any, mesh: Mesh = GRID
) -> jax.ShapeDtypeStruct:
    """Describe an array on a mesh."""
    sharding = NamedSharding(mesh, P(*spec))
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)


def whole(x: jax.Array) -> jax.Array:
    """Gather an array."""
    return jax.lax.with_sharding_constraint(x, NamedSharding(GRID, P()))


def gathered(seen: Program) -> set[str]:
    """Give the arguments of all all-gathers."""
    return {
        path
        for each in seen.communication
        if each.kind == "all-gather"
        for path in each.arguments
    }


X = struct((64, 128), "data")
W = struct((128, 128), "data", "model")
REPLICATED = struct((128, 128))
# Of data and weights that are sharded over the same axis.
ROWS = struct((4096, 128), "data", mesh=LINE)
STACKED = {
    "down": struct((LAYERS, 256, 128), None, "data", mesh=LINE),
    "up": struct((LAYERS, 128, 256), None, "data", mesh=LINE),
}
MOVES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "bfloat16": lambda w: w.astype(jnp.bfloat16),
    "bits": lambda w: w.astype(jnp.bfloat16).astype(jnp.float32),
    "flat": lambda w: w.reshape(-1),
    "heads": lambda w: w.reshape(128, 8, 16),
    "padded": lambda w: jnp.pad(w, ((0, 8), (0, 0))),
    "part": lambda w: w[:64, ::2],
    "reversed": lambda w: w[:, ::-1],
    "transposed": lambda w: w.T,
    "twice": lambda w: jnp.concatenate([w, w]),
    "whole": lambda w: w,
}


@pytest.mark.parametrize("name", MOVES)
def test_a_part_of_an_argument(name: str) -> None:
    """What only moves, cuts or converts keeps the name of the argument."""
    seen = program(lambda x, ws: whole(MOVES[name](ws["up"])), X, {"up": W})

    assert seen.communication
    assert {
        path for each in seen.communication for path in each.arguments
    } == {"ws.up"}


def test_what_is_computed_has_no_name() -> None:
    """A sine of an argument and a gradient are of no argument."""

    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ w).sum()

    gather = jax.shard_map(
        lambda x: jax.lax.all_gather(jnp.sin(x), "data", tiled=True),
        mesh=LINE,
        in_specs=P("data"),
        out_specs=P(),
        check_vma=False,
    )
    (sine,) = program(gather, ROWS).communication
    seen = program(jax.grad(loss), REPLICATED, X)

    assert (sine.kind, sine.arguments) == ("all-gather", ("",))
    assert {each.kind for each in seen.communication} == {"all-reduce"}
    assert all(each.arguments == ("",) for each in seen.communication)


def test_explicit_axes() -> None:
    """A reshard of an argument names it."""
    rows = NamedSharding(EXPLICIT, P("data"))
    w = jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=rows)

    def forward(x: jax.Array, params: dict[str, jax.Array]) -> jax.Array:
        return x @ jax.sharding.reshard(params["w"], P())

    with jax.set_mesh(EXPLICIT):
        (seen,) = program(forward, w, {"w": w}).communication

    assert (seen.kind, seen.arguments) == ("all-gather", ("params.w",))


class Block(nnx.Module):
    """Two layers."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.up = nnx.Linear(128, 256, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(256, 128, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Add what they give."""
        return x + self.down(jax.nn.relu(self.up(x)))


class Model(nnx.Module):
    """Blocks."""

    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
        self.unused = nnx.Param(jnp.ones(8))

    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply all."""
        for block in self.blocks:
            x = block(x)
        return x


def sharded_model() -> Model:
    """Shard the kernels of a model over all devices."""
    model = Model()

    def place(x: jax.Array) -> jax.Array:
        spec = P("data") if x.ndim == 2 else P()
        return jax.device_put(x, NamedSharding(LINE, spec))

    nnx.update(model, jax.tree.map(place, nnx.state(model)))
    return model


def test_a_module_under_jit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are those of the Module, although nnx.jit splits its state."""

    @nnx.jit(static_argnames=("scale",))
    def step(
        unused: jax.Array,
        model: Model,
        turns: int,
        x: jax.Array,
        *,
        scale: float,
    ) -> jax.Array:
        loss = nnx.grad(lambda model: scale * jnp.tanh(model(x)).sum())
        nnx.update(model, loss(model))
        return turns * x

    model = sharded_model()
    seen = program(step, jnp.ones(7), model, 3, ROWS, scale=2.0)

    kernels = {
        f"model.blocks.{n}.{layer}.kernel"
        for n in range(LAYERS)
        for layer in ("up", "down")
    }
    assert kernels == gathered(seen) - {""}
    assert seen.argument_bytes is not None
    assert kernels <= set(seen.argument_bytes)
    monkeypatch.setenv("COLUMNS", "200")
    assert "all-gather of f32 model.blocks.*.up.kernel ×3 over data" in (
        repr(seen)
    )


def looped(ws: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """Multiply by stacked weights."""

    def turn(x: jax.Array, w: Any) -> tuple[jax.Array, None]:
        return jnp.tanh(x @ w["up"]) @ w["down"], None

    return jax.lax.scan(turn, x, ws)[0]


@pytest.mark.parametrize("donated", [(), (0,)])
def test_stacked_weights_in_a_loop(donated: tuple[int, ...]) -> None:
    """A slice of stacked weights has their name, in both passes."""

    def step(ws: Any, x: jax.Array) -> Any:
        grads = jax.grad(lambda ws: looped(ws, x).sum())(ws)
        return jax.tree.map(lambda w, g: w - g, ws, grads)

    seen = program(jax.jit(step, donate_argnums=donated), STACKED, ROWS)
    times = [
        (path, each.times)
        for each in seen.communication
        if each.kind == "all-gather"
        for path in filter(None, each.arguments)
    ]

    assert set(times) == {("ws.up", LAYERS), ("ws.down", LAYERS)}


def test_a_gather_before_a_loop() -> None:
    """Weights that are gathered outside of the loop have their name."""
    seen = program(
        lambda ws, x: looped(jax.tree.map(whole, ws), x), STACKED, ROWS
    )

    assert gathered(seen) == {"ws.up", "ws.down"}


def test_what_a_loop_changes_has_no_name() -> None:
    """The carry of a loop begins as an argument, and is another then."""
    square = struct((128, 128), "data")

    def power(x: jax.Array) -> jax.Array:
        def turn(x: jax.Array, _: None) -> tuple[jax.Array, None]:
            return jnp.tanh(x @ whole(x)), None

        return jax.lax.scan(turn, x, length=4)[0]

    assert gathered(program(power, square)) == {""}


def test_a_branch() -> None:
    """What only one branch gathers has its name."""

    def either(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.cond(
            x[0, 0] > 0, lambda w: whole(w) @ w, lambda w: w, w
        )

    assert "w" in gathered(program(either, X, W))


def test_the_names_of_what_is_lowered() -> None:
    """Without the call's arguments, they are what XLA notes."""
    lowered = jax.jit(lambda x, ws: whole(ws["up"])).lower(X, {"up": W})
    adam = optax.ScaleByAdamState(count=X, mu={"up": W}, nu={"up": W})
    deeper = jax.jit(lambda *state: whole(state[1].mu["up"])).lower(X, adam)
    model = sharded_model()
    variable = jax.jit(
        lambda model: whole(model.blocks[1].up.kernel[...])
    ).lower(model)

    for stage, name in (
        (lowered, "ws.up"),
        (deeper, "state.1.mu.up"),
        (variable, "model.blocks.1.up.kernel"),
    ):
        for given in (stage, stage.compile()):
            assert gathered(program(given)) == {name}


TOKEN = """HloModule f, num_partitions=8

ENTRY %main (token: token[], a: f32[8], b: f32[8]) -> f32[64] {
  %token = token[] parameter(0)
  %a = f32[8]{0} parameter(1), metadata={op_name="params[\\'a\\']"}
  %b = f32[8]{0} parameter(2), metadata={op_name="b"}
  %start = ((f32[8], f32[8]), (f32[64], f32[64])) all-gather-start(%a, %b),\
 replica_groups=[1,8]<=[8]
  %done = (f32[64], f32[64]) all-gather-done(%start)
  %second = f32[64]{0} get-tuple-element(%done), index=1
  ROOT %sum = f32[64]{0} all-reduce(%second), replica_groups=[1,8]<=[8]
}
"""


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        ((), ("params.a", "b")),
        (("x", "y"), ("x", "y")),
        (("x", ""), ("x", "b")),
    ],
)
def test_a_combined_gather_after_a_token(
    paths: tuple[str, ...], names: tuple[str, ...]
) -> None:
    """A token of ordered effects comes before the arguments."""
    gather, reduce = communication(
        Module.of(TOKEN), {"data": 8}, arguments=paths
    )

    assert gather.arguments == names
    assert reduce.arguments == names[1:]


def test_helpers_come_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper's collectives are told apart by the lines that call it."""

    def project(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.einsum("bi,io->bo", x, w)

    def attention(x: jax.Array, ws: dict[str, jax.Array]) -> jax.Array:
        return project(jnp.tanh(x), ws["attention"])

    def feed_forward(x: jax.Array, ws: dict[str, jax.Array]) -> jax.Array:
        return project(jnp.sin(x), ws["feed_forward"])

    def model(ws: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        return feed_forward(attention(x, ws), ws)

    rows = struct((128, 128), "model")
    seen = program(model, {"attention": rows, "feed_forward": rows}, X)
    lines = [
        f"{__file__}:{each.__code__.co_firstlineno + 1}"
        for each in (project, attention, model)
    ]
    first, second = (
        each for each in seen.communication if each.kind == "all-reduce"
    )

    assert list(first.frames) == lines
    assert first.function == second.function == "project"
    places = [line.rpartition("/")[2] for line in lines]
    monkeypatch.setenv("COLUMNS", "200")
    row = f"1 all-reduce of f32 over model, {places[0]} < {places[1]}  "
    assert row in repr(seen)
    assert repr(seen).count("1 all-reduce of f32 over model") == 2
    by_frame = seen.by("frame")
    assert by_frame[lines[0]] == by_frame[lines[2]] == seen.sent("model")
    assert by_frame[lines[1]] == first.sent


def test_bytes_by_a_key() -> None:
    """What a device sends adds up, by arguments, lines and axes."""
    seen = program(lambda x, w: (jnp.sin(x).sum(), whole(w)), X, W)
    total = seen.sent()

    assert total
    for key in ("argument", "line", "axis"):
        sums = seen.by(key)
        assert sum(sums.values()) == total
        assert [*sums.values()] == sorted(sums.values(), reverse=True)
    assert set(seen.by("argument")) == {"w", "unknown"}
    assert set(seen.by("line")) | {"unknown"} == {
        *(each.line for each in seen.communication if each.line),
        "unknown",
    }
    for axes in {each.axes for each in seen.communication}:
        assert seen.by("axis")[" and ".join(axes)] == seen.sent(*axes)
    with pytest.raises(ValueError, match=r"Unknown key 'lines'. Known: 'a"):
        seen.by("lines")
    with pytest.raises(ValueError, match=r"Unknown key \['line'\]. Known"):
        seen.by(["line"])  # type: ignore[arg-type]
