"""What program() says first: what a step needs, and what looks wrong."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P
from strategies import MESHES
from training_step import array, gathering_block, params_of, step_of

from shardscope import Program, program

GRID = MESHES[1]
WHOLE, COLUMNS, ROWS = P(), P(None, "model"), P("data")
TX = optax.adam(1e-3)
SIZE = 512 * 512 * 4


def place(x: Any, spec: P) -> jax.Array:
    """Place an array on the mesh."""
    return jax.device_put(x, NamedSharding(GRID, spec))


def state_of(kernel: P = COLUMNS, moments: P = COLUMNS) -> Any:
    """Give the parameters and the optimizer state of one product."""
    params = {"kernel": place(jnp.ones((512, 512)), kernel)}
    opt_state = jax.tree.map(
        lambda x: place(x, moments if x.ndim else P()), TX.init(params)
    )
    return {"params": params, "opt_state": opt_state}


def train(
    state: Any, batch: jax.Array, constrain: Any = lambda x: x
) -> Any:
    """Take a step, perhaps with a constraint on the activations."""

    def loss(params: Any) -> jax.Array:
        return jnp.square(constrain(batch @ params["kernel"])).mean()

    value, grads = jax.value_and_grad(loss)(state["params"])
    updates, opt_state = TX.update(grads, state["opt_state"])
    params = optax.apply_updates(state["params"], updates)
    return {"params": params, "opt_state": opt_state}, value


def step(
    state: Any = None,
    batch: Any = None,
    function: Callable[..., Any] = train,
    **options: Any,
) -> Program:
    """Compile a step, with its state donated."""
    state = state_of() if state is None else state
    batch = place(jnp.ones((64, 512)), ROWS) if batch is None else batch
    options = {"donate_argnums": 0, **options}
    return program(jax.jit(function, **options), state, batch)


def as_given(state: Any) -> Any:
    """Give the shardings of what a step returns: those of its state."""
    return jax.tree.map(lambda x: x.sharding, state), None


def zero1() -> Any:
    """Give a state whose moments are sharded further."""
    return state_of(WHOLE, P("model"))


def as_bfloat16(state: Any, batch: jax.Array) -> Any:
    """Take a step from parameters in bfloat16, which return as float32."""
    params = jax.tree.map(lambda x: x.astype("float32"), state["params"])
    return train({**state, "params": params}, batch)


def in_bfloat16() -> Any:
    """Give a state with parameters in bfloat16."""
    kernel = place(jnp.ones((512, 512), "bfloat16"), COLUMNS)
    return {**state_of(), "params": {"kernel": kernel}}


TABLE = np.random.default_rng(0).normal(size=(512, 512)).astype("float32")
ON_DEVICE = jnp.asarray(TABLE)


def microbatches(add: Callable[..., jax.Array]) -> Program:
    """Compile a sum of the gradients of four microbatches."""

    def accumulate(kernel: jax.Array, batch: jax.Array) -> jax.Array:
        def turn(total: jax.Array, part: jax.Array) -> tuple[Any, None]:
            grads = jax.grad(lambda w: jnp.square(part @ w).mean())(kernel)
            return add(total, grads.astype("float32")), None

        start = jnp.zeros((512, 512), "float32")
        return jax.lax.scan(turn, start, batch)[0]

    kernel = place(jnp.ones((512, 512), "bfloat16"), WHOLE)
    batch = place(jnp.ones((4, 64, 512), "bfloat16"), P(None, "data"))
    return program(accumulate, kernel, batch)


def linear() -> tuple[nnx.Linear, nnx.Optimizer[Any]]:
    """Make a Module, on one device, and its optimizer."""
    model = nnx.Linear(512, 512, use_bias=False, rngs=nnx.Rngs(0))
    return model, nnx.Optimizer(model, TX, wrt=nnx.Param)


def update(model: Any, optimizer: Any, x: jax.Array) -> jax.Array:
    """Take a step that writes to both Modules."""
    loss, grads = nnx.value_and_grad(lambda m: jnp.square(m(x)).mean())(
        model
    )
    optimizer.update(model, grads)
    return loss


# The step, the rule, the path, and the bytes.
WRONG: dict[str, tuple[Callable[[], Program], str, str, int]] = {
    "a captured array": (
        lambda: step(function=lambda s, x: train(s, x @ ON_DEVICE)),
        "captured",
        r"f32\[512,512\] at test_program_findings\.py:\d+",
        SIZE,
    ),
    "a captured array of NumPy": (
        lambda: step(function=lambda s, x: train(s, x @ TABLE)),
        "captured",
        r"f32\[512,512\] at test_program_findings\.py:\d+",
        SIZE,
    ),
    "a table that each call copies": (
        lambda: program(
            lambda x, table: x @ table,
            place(jnp.ones((64, 512)), ROWS),
            ON_DEVICE,
        ),
        "copied",
        "table",
        7 * SIZE,
    ),
    "a batch of NumPy, whole on each device": (
        lambda: step(batch=np.ones((64, 512), "float32")),
        "copied",
        "batch",
        8 * 64 * 512 * 4,
    ),
    "a batch that is not sharded": (
        lambda: step(batch=place(jnp.ones((64, 512)), WHOLE)),
        "same_work",
        "batch",
        0,
    ),
    "a batch of NumPy, the features of which XLA shards": (
        lambda: step(
            state_of(P("data", "model"), P("data", "model")),
            np.ones((64, 512), "float32"),
        ),
        "unplaced",
        "batch",
        0,
    ),
    "parameters that come back as their moments": (
        lambda: step(zero1()),
        "resharded",
        r"state\.params\.kernel",
        SIZE,
    ),
    "parameters that come back in another dtype": (
        lambda: step(in_bfloat16(), function=as_bfloat16),
        "retyped",
        r"state\.params\.kernel",
        SIZE // 2 // 4,
    ),
    "gradients that the devices add up for each microbatch": (
        lambda: microbatches(lambda total, grads: 0.9 * total + grads / 4),
        "in_each_turn",
        r"test_program_findings\.py:\d+",
        3 * SIZE,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_looks_wrong(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in a step is found, named and among the first lines."""
    monkeypatch.setenv("COLUMNS", "200")
    make, rule, path, size = WRONG[name]
    seen = make()
    found = {each.rule: each for each in seen.findings()}

    assert re.fullmatch(path, found[rule].path)
    assert found[rule].bytes == size or not size
    lines = repr(seen).splitlines()
    assert lines[2] == "Looks wrong"
    assert any(found[rule].path in line for line in lines[3:7])
    assert "Looks wrong" in seen._repr_html_().partition("<table>")[0]


def whole(x: jax.Array) -> jax.Array:
    """Gather activations."""
    rows, all_rows = NamedSharding(GRID, ROWS), NamedSharding(GRID, WHOLE)
    x = jnp.tanh(jax.lax.with_sharding_constraint(x, rows))
    return jax.lax.with_sharding_constraint(x, all_rows)


def sharded(state: Any) -> dict[str, Any]:
    """Give options that return a state as it was given."""
    return {"state": state, "out_shardings": as_given(state)}


RIGHT: dict[str, Callable[[], Program]] = {
    "tensor parallelism": lambda: step(**sharded(state_of())),
    "FSDP": lambda: step(**sharded(state_of(ROWS, ROWS))),
    "data parallelism": lambda: step(**sharded(state_of(WHOLE, WHOLE))),
    "ZeRO-1": lambda: step(**sharded(zero1())),
    "nothing donated": lambda: step(
        **sharded(state_of()), donate_argnums=()
    ),
    "a batch of NumPy, in slices": lambda: step(
        **sharded(state_of()),
        batch=np.ones((64, 512), "float32"),
        in_shardings=(as_given(state_of())[0], NamedSharding(GRID, ROWS)),
    ),
    "gradients that are sharded otherwise": lambda: program(
        jax.jit(
            jax.grad(lambda params, x: (x @ params["kernel"]).sum()),
            out_shardings=NamedSharding(GRID, P("model")),
        ),
        state_of()["params"],
        place(jnp.ones((64, 512)), ROWS),
    ),
    "gradients of microbatches that are clipped": lambda: microbatches(
        lambda total, grads: total + grads / jnp.linalg.norm(grads)
    ),
    "sums that the next layer of a scan reads": lambda: program(
        lambda x, kernels: jax.lax.scan(
            lambda x, up: (x + jnp.tanh(x @ up) @ up.T, None), x, kernels
        ),
        place(jnp.ones((64, 512)), ROWS),
        place(jnp.ones((4, 512, 512)), P(None, None, "model")),
    ),
    "a state that is moved on purpose": lambda: program(
        jax.jit(
            lambda state: jax.lax.with_sharding_constraint(
                state, NamedSharding(GRID, WHOLE)
            ),
            donate_argnums=0,
        ),
        state_of()["params"],
    ),
    "two matrices": lambda: step_of(),
    "a weight gathered in a step": lambda: step_of(gathering_block),
    "a mask that XLA computes": lambda: program(
        lambda x: jnp.where(jnp.tril(jnp.ones((512, 512), bool)), x, 0.0),
        place(jnp.ones((512, 512)), ROWS),
    ),
    "a batch of NumPy on one device": lambda: program(
        jnp.matmul, np.ones((64, 512), "float32"), ON_DEVICE
    ),
    "a batch over another dimension, and a key of NumPy": lambda: step(
        **sharded(state_of(WHOLE, WHOLE)),
        batch=(place(jnp.ones((64, 512)), P(None, "data")), np.ones(2)),
        function=lambda state, x: train(state, x[0] + x[1].sum()),
    ),
    "an array of NumPy that isn't used": lambda: program(
        lambda x, y: x, place(jnp.ones((64, 512)), ROWS), np.ones(1000000)
    ),
    "what is small": lambda: program(
        lambda x, y: x + y, place(jnp.ones(64), ROWS), np.ones(64, "f4")
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_looks_wrong_with_right_steps(name: str) -> None:
    """No rule speaks of what people do on purpose."""
    seen = RIGHT[name]()

    assert seen.findings() == ()
    assert "Looks wrong" not in repr(seen)


def test_notes() -> None:
    """A note says when it is right, and there are three at most."""
    keeping = step(**sharded(state_of(WHOLE, WHOLE)), donate_argnums=())
    fsdp = step_of(params=params_of(), batch=array((256, 64), P("data")))
    donated = step(donate_argnums=(0, 1))
    gathered = step(function=lambda s, x: train(s, x, whole))
    rules = {
        name: {each.rule for each in seen.notes()}
        for name, seen in {
            "keeping": keeping,
            "fsdp": fsdp,
            "donated": donated,
            "gathered": gathered,
            "moved": step(out_shardings=as_given(state_of(ROWS, ROWS))),
            "lost": program(jax.jit(update), *linear(), ON_DEVICE),
        }.items()
    }

    assert {"kept", "nothing_sharded"} <= rules["keeping"]
    assert "freed" in rules["donated"]
    assert "lost" in rules["gathered"]
    assert "moved" in rules["moved"]
    assert "ignored" in rules["lost"]
    assert "lost" not in rules["keeping"] | rules["fsdp"]
    assert "kept" not in rules["donated"]
    assert all(": right " in each.why for each in keeping.notes())
    assert repr(keeping).count("Note: ") == len(keeping.notes()) <= 3


def test_the_first_lines() -> None:
    """A report begins with the function, its devices and its needs."""
    lines = repr(step(**sharded(state_of()))).splitlines()

    assert lines[0] == "train on 8 devices, data 2, model 4"
    assert re.match(
        r"needs (at least )?\d+\.\d [KM]iB on each; sends .* over data",
        lines[1],
    )
    alone = program(lambda x: 2 * x, jnp.ones(4))
    assert repr(alone).splitlines()[:2] == [
        "a call on 1 device",
        "needs 32 bytes on each; sends nothing",
    ]


def test_a_module_that_resharded() -> None:
    """The path of a Module is told, though nnx.jit splits it."""
    model, optimizer = linear()
    for node, spec in ((model, WHOLE), (optimizer, P("model"))):
        placed = jax.tree.map(
            lambda x, spec=spec: place(x, spec if x.ndim else WHOLE),
            nnx.state(node),
        )
        nnx.update(node, placed)

    batch = place(jnp.ones((64, 512)), ROWS)
    (found,) = program(nnx.jit(update), model, optimizer, batch).findings()

    assert found.path == "model.kernel"
    assert "P(), but comes back as P('model')" in found.why
