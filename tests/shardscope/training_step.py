"""A small training step, sharded by FSDP and TP, to break on purpose."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from shardscope import Program, program

MESH = jax.make_mesh((2, 4), ("data", "model"), (AxisType.Auto,) * 2)
SPECS = {"up": P("data", "model"), "down": P("model", "data")}
SHAPES = {"up": (64, 256), "down": (256, 64)}
OPTIMIZER = optax.adamw(1e-3)


def array(
    shape: tuple[int, ...], spec: P, dtype: Any = "float32"
) -> jax.ShapeDtypeStruct:
    """Give an abstract array."""
    sharding = NamedSharding(MESH, spec)
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def params_of(**specs: P) -> Any:
    """Give the parameters; the specs are those of the last block."""
    return {
        "blocks": [
            {
                name: array(shape, {**SPECS, **changed}[name])
                for name, shape in SHAPES.items()
            }
            for changed in ({}, specs)
        ]
    }


def state_of(params: Any, spec: P | None = None) -> Any:
    """Give the optimizer state, sharded as the parameters or by a spec."""
    specs = iter(2 * [x.sharding.spec for x in jax.tree.leaves(params)])

    def place(leaf: Any) -> jax.ShapeDtypeStruct:
        like = next(specs) if leaf.ndim else P()
        given = like if spec is None else spec
        return array(leaf.shape, given, leaf.dtype)

    return jax.tree.map(place, jax.eval_shape(OPTIMIZER.init, params))


def matmul(x: jax.Array, w: jax.Array) -> jax.Array:
    """Multiply, for both halves of a block."""
    return x @ w


def block(x: jax.Array, weights: Any) -> jax.Array:
    """Apply a block."""
    hidden = jax.nn.gelu(matmul(x, weights["up"]))
    return x + matmul(hidden, weights["down"])


def gathering_block(x: jax.Array, weights: Any) -> jax.Array:
    """Apply a block, with a weight gathered by accident."""
    whole = NamedSharding(MESH, P())
    up = jax.lax.with_sharding_constraint(weights["up"], whole)
    hidden = jax.nn.gelu(matmul(x, up))
    return x + matmul(hidden, weights["down"])


BATCH = array((16, 64), P("data"))


def step_of(
    apply: Callable[[Any, Any], Any] = block,
    params: Any = None,
    state: Any = None,
    batch: Any = BATCH,
    donate: tuple[int, ...] = (0, 1),
) -> Program:
    """Compile the step, perhaps with a mistake."""
    params = params_of() if params is None else params
    state = state_of(params) if state is None else state

    def step(params: Any, state: Any, batch: Any) -> Any:
        def loss(params: Any) -> jax.Array:
            x = batch
            for weights in params["blocks"]:
                x = apply(x, weights)
            return jnp.square(x).mean()

        grads = jax.grad(loss)(params)
        updates, state = OPTIMIZER.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    shardings = jax.tree.map(lambda x: x.sharding, (params, state))
    jitted = jax.jit(step, donate_argnums=donate, out_shardings=shardings)
    return program(jitted, params, state, batch)
