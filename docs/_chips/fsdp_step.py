"""An FSDP step of a large MLP in bfloat16, for any eight devices."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook.inputs import squared_error
from shardbook.problems.fsdp_step import fsdp_step

MESH = {"data": 8}
ROWS, DIM, HIDDEN = 8192, 4096, 16384


def step_on(mesh):
    """Return a step for the devices of a mesh, and abstract arguments."""

    def array(shape, *spec):
        sharding = NamedSharding(mesh, P(*spec))
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=sharding)

    params = {
        "up": {
            "kernel": array((DIM, HIDDEN), None, "data"),
            "bias": array((HIDDEN,), "data"),
        },
        "down": {
            "kernel": array((HIDDEN, DIM), "data"),
            "bias": array((DIM,), "data"),
        },
    }
    specs = jax.tree.map(lambda leaf: leaf.sharding.spec, params)
    batch = {name: array((ROWS, DIM), "data") for name in ("x", "y")}
    return fsdp_step(squared_error, specs, mesh, 0.1), (params, batch)


def check(cpu, v5e, h100):
    """Assert what the page says."""
    kernels = 2 * DIM * HIDDEN
    # A gather sends 7/8 of the kernels, and so does a reduce-scatter.
    sent = 2 * kernels * 7 // 8
    assert sent * 2 < h100.sent("data") < sent * 2 * 1.001
    assert sent * 4 < cpu.sent("data") < sent * 4 * 1.001
    assert sent * 2 < v5e.sent("data") < sent * 2 * 1.02
    # On CPU, bfloat16 is converted to float32 and sent so.
    assert {
        array.partition("[")[0]
        for each in cpu.communication
        for array in each.arrays
    } == {"f32"}
    assert cpu.collectives["reduce-scatter"] == 4
    assert h100.collectives["reduce-scatter"] == 2
    combined = [len(each.arrays) for each in h100.communication]
    assert sorted(combined) == [1, 1, 1, 1, 2, 3]
    # On a TPU, the gradients of the biases and the loss are all-reduced.
    (reduced,) = (
        each for each in v5e.communication if each.kind == "all-reduce"
    )
    assert reduced.arrays == (
        f"bf16[{DIM}]",
        f"bf16[{HIDDEN}]",
        "bf16[]",
    )
    assert any(
        each.kind == "reduce-scatter"
        and each.arrays == (f"bf16[{HIDDEN + 320},{DIM}]",)
        for each in v5e.communication
    )
    assert cpu.memory.temporaries > 2 * h100.memory.temporaries
    assert cpu.memory.temporaries > 2 * v5e.memory.temporaries
