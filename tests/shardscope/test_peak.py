"""Who holds the memory at the peak, and how much a program computes."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest
from flax import linen as nn
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

from shardscope import Program, devices_of, program

AUTO = (AxisType.Auto,) * 2
GRID = (2, 4), ("data", "model")
# "nox -s elsewhere" installs what compiles for chips.
MACHINES = [
    pytest.param(None, 0.05, id="cpu"),
    pytest.param(
        "h100:1x8",
        0.10,
        marks=pytest.mark.skipif(
            find_spec("jax_plugins") is None, reason="no plugin for GPUs"
        ),
    ),
    pytest.param(
        "v5e:2x4",
        0.10,
        marks=pytest.mark.skipif(
            find_spec("libtpu") is None, reason="libtpu is not there"
        ),
    ),
]
DIM, HIDDEN, LAYERS, BATCH, TIME, WORDS = 256, 1024, 4, 64, 256, 32_000


def mesh_of(machine: str | None) -> Mesh:
    """Make a mesh of the devices here, or of a machine's."""
    devices = devices_of(machine) if machine else jax.devices()
    return jax.make_mesh(*GRID, AUTO, devices=devices)


def abstract(
    mesh: Mesh, shape: tuple[int, ...], *spec: Any, dtype: Any = jnp.float32
) -> jax.ShapeDtypeStruct:
    """Describe an array on a mesh."""
    sharding = NamedSharding(mesh, P(*spec))
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def model_loss(
    weights: dict[str, jax.Array], tokens: jax.Array, remat: bool
) -> jax.Array:
    """Compute the loss of a language model whose blocks are MLPs."""

    def block(x: jax.Array, layer: tuple[jax.Array, jax.Array]) -> Any:
        up, down = layer
        return x + jax.nn.gelu(x @ up) @ down, None

    if remat:
        block = jax.checkpoint(block)
    x = weights["words"][tokens]
    x, _ = jax.lax.scan(block, x, (weights["up"], weights["down"]))
    logits = x @ weights["words"].T
    chosen = jnp.take_along_axis(logits, tokens[..., None], -1)
    return jax.nn.logsumexp(logits, -1).sum() - chosen.sum()


def training(
    machine: str | None, *, donate: bool = False, remat: bool = False
) -> Program:
    """Report a training step with AdamW."""
    mesh = mesh_of(machine)
    optimizer = optax.adamw(1e-3)
    weights = {
        "words": abstract(mesh, (WORDS, DIM), "model"),
        "up": abstract(mesh, (LAYERS, DIM, HIDDEN), None, None, "model"),
        "down": abstract(mesh, (LAYERS, HIDDEN, DIM), None, "model"),
    }
    moments = jax.eval_shape(optimizer.init, weights)
    state = optax.tree_utils.tree_map_params(
        optimizer,
        lambda moment, weight: weight,
        moments,
        weights,
        transform_non_params=lambda count: abstract(
            mesh, count.shape, dtype=count.dtype
        ),
    )

    def step(weights: Any, state: Any, tokens: jax.Array) -> Any:
        gradients = jax.grad(model_loss)(weights, tokens, remat)
        updates, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state

    jitted = jax.jit(step, donate_argnums=(0, 1) if donate else ())
    tokens = abstract(mesh, (BATCH, TIME), "data", dtype=jnp.int32)
    return program(jitted, weights, state, tokens)


@pytest.mark.parametrize(("machine", "tolerance"), MACHINES)
@pytest.mark.parametrize("remat", [False, True])
@pytest.mark.parametrize("donate", [False, True])
def test_the_sum_is_near_what_xla_assigns(
    machine: str | None, tolerance: float, remat: bool, donate: bool
) -> None:
    """A training step holds at its peak what XLA assigns, about."""
    peak = training(machine, donate=donate, remat=remat).peak

    assert peak.bytes == sum(each.bytes for each in peak.arrays)
    assert abs(peak.difference) < tolerance


def grown(cache: Any, x: Any, at: Any) -> Any:
    """Write into a cache."""
    cache = jax.lax.dynamic_update_slice(cache, x[:, None], (0, at, 0))
    return cache, jnp.einsum("bd,btd->bt", x, cache)


def open_loop(x: Any, w: Any) -> Any:
    """Turn until the data says stop."""
    return jax.lax.while_loop(
        lambda x: x.sum() < 1e9, lambda x: jnp.sin(x @ w), x
    )


def either(x: Any, w: Any) -> Any:
    """Take one of two branches."""
    return jax.lax.cond(
        x[0, 0] > 0, lambda x: jnp.tanh(x @ w) @ w, lambda x: (x @ w).T, x
    )


def ring(x: Any, w: Any) -> Any:
    """Pass the slices of a matrix around."""

    def local(x: jax.Array, w: jax.Array) -> jax.Array:
        pairs = [(at, (at + 1) % 4) for at in range(4)]

        def turn(carried: Any, _: Any) -> Any:
            summed, w = carried
            passed = jax.lax.ppermute(w, "model", pairs)
            return (summed + jnp.tanh(x @ w), passed), None

        start = jnp.zeros((x.shape[0], w.shape[1]))
        return jax.lax.scan(turn, (start, w), None, length=4)[0][0]

    return jax.shard_map(
        local,
        mesh=mesh_of(None),
        in_specs=(P("data"), P(None, "model")),
        out_specs=P("data"),
        check_vma=False,
    )(x, w)


SQUARE = (2048, 2048)
KINDS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "branches": (either, ((SQUARE, "data"), (SQUARE, None, "model"))),
    "elementwise": (
        lambda x: jnp.cumsum(jnp.sin(x) * 2 + jnp.flip(x), 0),
        ((SQUARE, "data"),),
    ),
    "gather": (
        lambda x, w: jnp.tanh(x @ w) @ w.T,
        ((SQUARE, "data"), (SQUARE, "data", "model")),
    ),
    "loop": (open_loop, ((SQUARE, "data"), (SQUARE,))),
    "ring": (ring, ((SQUARE, "data"), (SQUARE, None, "model"))),
    "scatter": (
        jax.grad(lambda x: (x[jnp.arange(512) % 7] ** 2).sum()),
        ((SQUARE, None, "model"),),
    ),
    "sort": (lambda x: jnp.sort(x, 0) * x, ((SQUARE, None, "data"),)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_sum_of_each_kind_of_program(kind: str) -> None:
    """Loops, branches, updates and results in place are counted once."""
    function, arguments = KINDS[kind]
    mesh = mesh_of(None)
    given = [abstract(mesh, shape, *spec) for shape, *spec in arguments]
    report = program(jax.jit(function), *given)

    assert abs(report.peak.difference) < 0.05


@pytest.mark.parametrize("donated", [(), (0,)])
def test_a_donated_cache_counts_once(donated: tuple[int, ...]) -> None:
    """An update in place needs no second cache, if the first is donated."""
    mesh = mesh_of(None)
    cache = abstract(mesh, (64, 2048, 128), "data")
    row = abstract(mesh, (64, 128), "data")
    at = abstract(mesh, (), dtype=jnp.int32)
    jitted = jax.jit(grown, donate_argnums=donated)
    peak = program(jitted, cache, row, at).peak
    caches = [each for each in peak.arrays if each.array == CACHE]

    assert sum(each.count for each in caches) == (1 if donated else 2)
    assert abs(peak.difference) < 0.05


CACHE = "f32[32,2048,128]"


def test_the_logits_are_found() -> None:
    """The largest arrays are the logits, with the line that makes them."""
    peak = training(None).peak
    first = peak.arrays[0]
    shown = repr(peak).splitlines()

    assert first.array.endswith(f"{WORDS // 4}]")
    assert "test_peak.py:" in first.line
    assert "test_peak.py:" in shown[1]
    assert shown[-2].split()[-1] == f"{peak.total:,}"
    assert "difference" in shown[-1]


def test_arguments_have_their_paths() -> None:
    """An argument is named as in the table of arguments."""
    report = training(None)
    named = {each.argument for each in report.peak.arrays} - {""}

    assert report.argument_bytes is not None
    assert named >= {"weights.up", "tokens"}
    assert named <= set(report.argument_bytes)


def test_layers_that_repeat_are_one_row() -> None:
    """No two rows read the same, though Linen numbers its layers."""

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            for at in range(4):
                x = nn.Dense(256, use_bias=False, name=f"layers_{at}")(x)
                x = jax.nn.gelu(x)
            return x

    model, x = Model(), abstract(mesh_of(None), (512, 256), "data")
    weights = jax.eval_shape(model.init, jax.random.key(0), x)
    report = program(
        jax.value_and_grad(lambda w, x: (model.apply(w, x) ** 2).mean()),
        weights,
        x,
    )
    rows = [repr(each).rpartition(", ")[0] for each in report.peak.arrays]
    (products,) = [
        each
        for each in report.peak.arrays
        if each.what == "layers_*/dot_general"
        and each.direction == "forward"
    ]

    assert len(rows) == len({*rows})
    assert products.bytes == products.count * 256 * 256 * 4


# --- FLOPs ---


@pytest.mark.parametrize(("machine", "_"), MACHINES)
@pytest.mark.parametrize("remat", [False, True])
def test_flops_are_those_of_the_formula(
    machine: str | None, _: float, remat: bool
) -> None:
    """Two a product, for each pass and each turn of a loop."""
    tokens = BATCH * TIME // 2
    block = 2 * 2 * tokens * DIM * HIDDEN // 4
    # With a checkpoint, the second product has no need to be repeated.
    passes = 3 * block + (block // 2 if remat else 0)
    logits = 3 * 2 * tokens * DIM * WORDS // 4
    report = training(machine, remat=remat)

    assert report.flops.total == LAYERS * passes + logits
    assert report.flops.counted
    assert report.flops.per_byte_sent == report.flops.total / report.sent()


@pytest.mark.parametrize(("machine", "_"), MACHINES)
def test_flops_of_convolutions(machine: str | None, _: float) -> None:
    """What a window reads of the padding is not counted."""
    mesh = mesh_of(machine)
    filters = abstract(mesh, (3, 3, 16, 16))
    images = abstract(mesh, (16, 32, 32, 16), "data")

    def loss(filters: jax.Array, images: jax.Array) -> jax.Array:
        out = jax.lax.conv_general_dilated(
            images,
            filters,
            (1, 1),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        return (out**2).sum()

    report = program(jax.jit(jax.grad(loss)), filters, images)
    read = (3 * 32 - 2) ** 2

    assert report.flops.total == 2 * 2 * 8 * read * 16 * 16


def test_flops_that_depend_on_data() -> None:
    """A loop whose end depends on data is said to be open."""
    mesh = mesh_of(None)
    x, w = abstract(mesh, SQUARE, "data"), abstract(mesh, SQUARE)
    looped = program(jax.jit(open_loop), x, w).flops
    branched = program(jax.jit(either), x, w).flops

    assert looped.total == 2 * 1024 * 2048 * 2048
    assert not looped.bounded
    assert "one turn of loops" in " ".join(repr(looped).split())
    assert branched.bounded
    assert not branched.counted
    assert "at most" in repr(branched)
