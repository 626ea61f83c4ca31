"""The forward pass of a large MLP in bfloat16, for any eight devices."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook.problems.megatron_mlp import megatron_mlp

MESH = {"data": 2, "model": 4}
ROWS, DIM, HIDDEN = 8192, 4096, 16384


def step_on(mesh):
    """Return the pass for the devices of a mesh, and its arguments."""

    def array(shape, *spec):
        sharding = NamedSharding(mesh, P(*spec))
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=sharding)

    params = {
        "up": {
            "kernel": array((DIM, HIDDEN), None, "model"),
            "bias": array((HIDDEN,), "model"),
        },
        "down": {
            "kernel": array((HIDDEN, DIM), "model"),
            "bias": array((DIM,)),
        },
    }

    def forward(params, x):
        return megatron_mlp(params, x, mesh)

    return jax.jit(forward), (params, array((ROWS, DIM), "data"))


def check(cpu, v5e, h100):
    """Assert what the page says."""
    # Of the rows of a device, the output; in a ring of four, 2 * 3/4 of it.
    sent = ROWS // 2 * DIM * 2 * 2 * 3 // 4
    for chip in (cpu, v5e, h100):
        assert chip.collectives == {"all-reduce": 1}
        assert chip.sent("data") == 0
    assert v5e.sent("model") == h100.sent("model") == sent
    assert cpu.sent("model") == 2 * sent
    # Hidden activations, 4096 by 4096, in bfloat16: twice that on CPU, and
    # a second time, because the terms are float32 too.
    hidden = ROWS // 2 * HIDDEN // 4 * 2
    assert hidden <= h100.memory.temporaries < 1.01 * hidden
    assert hidden <= v5e.memory.temporaries < 1.01 * hidden
    assert cpu.memory.temporaries == 4 * hidden
