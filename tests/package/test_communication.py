"""What collectives() counts."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from shardbook import collectives

MESH = jax.make_mesh((8,), ("model",), (AxisType.Auto,))


def over_devices(*spec: str | None) -> jax.Array:
    """Place an array on the mesh."""
    return jax.device_put(jnp.ones((16, 16)), NamedSharding(MESH, P(*spec)))


def test_none() -> None:
    """An elementwise function needs no communication."""
    assert collectives(lambda x: 2 * x, over_devices("model")) == {}


def test_each_kind() -> None:
    """Each collective that is written is counted under its name."""

    def everything(x: jax.Array) -> jax.Array:
        whole = jax.lax.all_gather(x, "model", tiled=True)
        x = jax.lax.psum_scatter(whole, "model", tiled=True)
        x = jax.lax.all_to_all(x, "model", 1, 0, tiled=True)
        pairs = [(i, (i + 1) % 8) for i in range(8)]
        return jax.lax.psum(jax.lax.ppermute(x, "model", pairs), "model")

    function = jax.shard_map(
        everything, mesh=MESH, in_specs=P("model"), out_specs=P()
    )

    assert collectives(function, over_devices("model")) == {
        "all-gather": 1,
        "all-reduce": 1,
        "all-to-all": 1,
        "collective-permute": 1,
        "reduce-scatter": 1,
    }


def test_the_layout_of_the_arguments_decides() -> None:
    """The same function costs nothing, or a reduction."""

    def multiply(x: jax.Array, w: jax.Array) -> jax.Array:
        return x @ w

    x = jnp.ones((4, 16))

    assert collectives(multiply, x, over_devices(None, "model")) == {}
    assert collectives(multiply, x, over_devices("model")) == {
        "all-reduce": 1
    }


def test_functions_that_are_jitted_already() -> None:
    """What jax.jit and nnx.jit give is compiled as it is."""
    model = nnx.Linear(16, 16, rngs=nnx.Rngs(0))
    model.kernel.set_value(over_devices("model"))
    x = jnp.ones((4, 16))

    assert collectives(
        jax.jit(lambda x: x.sum()), over_devices("model")
    ) == {"all-reduce": 1}
    assert collectives(nnx.jit(lambda m, x: m(x)), model, x=x) == {
        "all-reduce": 1
    }
