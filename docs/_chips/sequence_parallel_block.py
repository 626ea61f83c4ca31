"""The gradients of a norm and an MLP, for any eight devices."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook.problems.sequence_parallel_block import (
    rms_norm,
    sequence_parallel_block,
)
from shardbook_site.note_chips import mesh_on
from shardscope import devices_of, program

MESH = {"data": 1, "model": 8}
ROWS, LENGTH, DIM, HIDDEN = 4, 2048, 4096, 16384


def by_constraints(params, x, mesh):
    """Leave the collectives to the compiler."""

    def to(array, *spec):
        sharding = NamedSharding(mesh, P(*spec))
        return jax.lax.with_sharding_constraint(array, sharding)

    normed = rms_norm(x, params["scale"])
    hidden = jax.nn.gelu(normed @ params["up"])
    hidden = to(hidden, "data", None, "model")
    return x + to(hidden @ params["down"], "data", "model")


def step_on(mesh, *, block=sequence_parallel_block):
    """Return a step for the devices of a mesh, and abstract arguments."""

    def abstract(shape, *spec):
        sharding = NamedSharding(mesh, P(*spec))
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)

    def loss(params, x):
        return (block(params, x, mesh) ** 2).mean()

    params = {
        "scale": abstract((DIM,)),
        "up": abstract((DIM, HIDDEN), None, "model"),
        "down": abstract((HIDDEN, DIM), "model"),
    }
    x = abstract((ROWS, LENGTH, DIM), "data", "model")
    return jax.jit(jax.grad(loss, argnums=(0, 1))), (params, x)


def check(cpu, v5e, h100):
    """Assert what the page says."""
    # To gather the tokens of a device's rows, in float32.
    gather = 4 * ROWS * LENGTH * DIM * 7 // 8
    machines = jax.devices(), devices_of("v5e:2x4"), devices_of("h100:1x8")
    for report, devices, ours, theirs in zip(
        (cpu, v5e, h100), machines, (4, 3, 4), (6, 3.571, 4), strict=True
    ):
        assert ours < report.sent("model") / gather < ours + 0.001
        gathers = [
            each
            for each in report.communication
            if each.kind == "all-gather"
        ]
        # On a TPU in bfloat16.
        parts = 4 if report is v5e else 2
        assert sum(each.sent for each in gathers) == gather * 4 // parts
        mesh = mesh_on(MESH, devices)
        step, arguments = step_on(mesh, block=by_constraints)
        free = program(step, *arguments)
        assert theirs < free.sent("model") / gather < theirs + 0.001
        # What leaves each device its own tokens of a sum.
        kinds = {"all-reduce": 3}
        if report is v5e:
            kinds = {"all-reduce": 1, "collective-permute": 18}
        if report is h100:
            kinds = {"all-reduce": 1, "reduce-scatter": 2}
        assert free.collectives == {"all-gather": 2, **kinds}
