"""A test for a machine that is not here, as the guide to CI shows it."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from shardscope import machine
from shardscope.pytest_plugin import Golden

mesh = jax.make_mesh((2, 4), ("data", "model"), (AxisType.Auto,) * 2)


def arguments() -> tuple[jax.ShapeDtypeStruct, ...]:
    """Give a weight and a batch on this computer."""
    w = NamedSharding(mesh, P("data", "model"))
    x = NamedSharding(mesh, P("data"))
    return (
        jax.ShapeDtypeStruct((256, 1024), "float32", sharding=w),
        jax.ShapeDtypeStruct((64, 256), "float32", sharding=x),
    )


def train_step(w: jax.Array, x: jax.Array) -> jax.Array:
    """Take a step."""
    return w - jax.grad(lambda w: jnp.square(x @ w).mean())(w)


# --- test ---
def test_step_on_v5e(shardscope: Golden) -> None:
    """The step does on eight v5e chips what the file says."""
    pytest.importorskip("libtpu")
    v5e = machine("v5e:2x4", data=2, model=4)
    step = jax.jit(train_step, donate_argnums=0)
    shardscope(step, *v5e.place(arguments()))
