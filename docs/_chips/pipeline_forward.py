"""Gradients of a pipeline of four stages, for any eight devices."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook import devices_of, program
from shardbook.problems.pipeline_forward import pipeline_forward
from shardbook_site.note_chips import mesh_on

MESH = {"data": 2, "model": 4}
LAYERS, ROWS, DIM, COUNT = 8, 4096, 1024, 8


def block(kernel, x):
    """Return x plus the tanh of a product."""
    return x + jnp.tanh(x @ kernel)


def left_to_jit(block, stacked, x, mesh, count):
    """Return x after a scan over all layers."""
    y, _ = jax.lax.scan(lambda y, w: (block(w, y), None), x, stacked)
    rows = NamedSharding(mesh, P("data"))
    return jax.lax.with_sharding_constraint(y, rows)


def step_on(mesh, pipeline=pipeline_forward):
    """Return the gradients for the devices of a mesh, and arguments."""

    def array(shape, spec):
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)

    def loss(stacked, x):
        return (pipeline(block, stacked, x, mesh, COUNT) ** 2).sum()

    gradient = jax.jit(jax.grad(loss, argnums=(0, 1)))
    kernels = array((LAYERS, DIM, DIM), P("model"))
    return gradient, (kernels, array((ROWS, DIM), P("data")))


def check(cpu, v5e, h100):
    """Assert what the page says."""
    shard, ticks = 4 * ROWS // 2 * DIM, COUNT + 3
    sent = shard * ticks // COUNT + 2 * shard * 3 // 4
    machines = jax.devices(), devices_of("v5e:2x4"), devices_of("h100:1x8")
    for report, devices in zip((cpu, v5e, h100), machines, strict=True):
        step, arguments = step_on(mesh_on(MESH, devices), left_to_jit)
        free = program(step, *arguments)
        print(report.collectives, report.sent("model"), 2 * sent,
              report.sent("data"), report.flops.total, report.memory)
        for c in report.communication:
            print("   ", c.kind, c.axes, c.times, c.arrays[:2], c.sent, c.passed_on)
        print("  free", free.collectives, free.sent("model"), free.sent("data"), free.flops.total, free.memory)
