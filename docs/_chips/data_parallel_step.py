"""A data-parallel step of a large MLP in bfloat16, for any devices."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook.problems.data_parallel_step import data_parallel_step

MESH = {"data": 8}
ROWS, DIM, HIDDEN = 8192, 4096, 16384


class MLP(nnx.Module):
    """Two layers in bfloat16."""

    def __init__(self):
        """Make the layers."""
        options = {"param_dtype": jnp.bfloat16, "rngs": nnx.Rngs(0)}
        self.up = nnx.Linear(DIM, HIDDEN, **options)
        self.down = nnx.Linear(HIDDEN, DIM, **options)

    def __call__(self, x):
        """Run them."""
        return self.down(jax.nn.gelu(self.up(x)))


def build():
    """Make a model and its optimizer."""
    model = MLP()
    return model, nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)


def step_on(mesh):
    """Return a step for the devices of a mesh, and abstract arguments."""

    def array(leaf, *spec):
        sharding = NamedSharding(mesh, P(*spec))
        return jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=sharding
        )

    graph, state = nnx.split(nnx.eval_shape(build))
    model, optimizer = nnx.merge(graph, jax.tree.map(array, state))
    rows = jax.ShapeDtypeStruct((ROWS, DIM), jnp.bfloat16)
    batch = {name: array(rows, "data") for name in ("x", "y")}
    step = data_parallel_step(model, optimizer, mesh)
    return step, (model, optimizer, batch)


def check(cpu, v5e, h100):
    """Assert what the page says."""
    kernels = 2 * DIM * HIDDEN
    # In a ring, an all-reduce sends 2 * 7/8 of the gradients.
    sent = 2 * kernels * 2 * 7 // 8
    for chip in (v5e, h100):
        assert sent < chip.sent("data") < sent * 1.001
        assert set(chip.collectives) == {"all-reduce"}
        assert chip.collectives["all-reduce"] == 4
    assert sent * 2 < cpu.sent("data") < sent * 2 * 1.001
    assert cpu.collectives == {"all-reduce": 1}
    # The arguments are alike, and CPU needs more of all the rest.
    assert abs(cpu.memory.arguments - h100.memory.arguments) < 2**16
    assert cpu.memory.temporaries > 3 * h100.memory.temporaries
    assert cpu.memory.temporaries > 5 * v5e.memory.temporaries
