"""Gradients of a pipeline of four stages, for any eight devices."""

from unittest import mock

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook.problems.pipeline_forward import pipeline_forward
from shardbook_site.note_chips import mesh_on
from shardscope import devices_of, program

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


def unmarked(block, stacked, x, mesh, count):
    """Return the solution's output, with layers the same along "data"."""
    pcast = jax.lax.pcast

    def mark(tree, axis, to):
        return tree if axis == "data" else pcast(tree, axis, to=to)

    with mock.patch.object(jax.lax, "pcast", mark):
        return pipeline_forward(block, stacked, x, mesh, count)


def check(cpu, v5e, h100):
    """Assert what the page says."""
    shard, ticks = 4 * ROWS // 2 * DIM, COUNT + 3
    sent = shard * ticks // COUNT + 2 * shard * 3 // 4
    kernels = 4 * LAYERS // 4 * DIM * DIM
    machines = jax.devices(), devices_of("v5e:2x4"), devices_of("h100:1x8")
    for report, devices, times in zip(
        (cpu, v5e, h100), machines, (1, 4, 8), strict=True
    ):
        mesh = mesh_on(MESH, devices)

        def compiled(pipeline, mesh=mesh):
            step, arguments = step_on(mesh, pipeline)
            return program(step, *arguments)

        assert report.sent("model") == 2 * sent
        assert report.sent("data") == kernels
        for each in report.communication:
            permutes = each.kind == "collective-permute"
            assert each.times == (ticks if permutes else 1)
            assert each.passed_on == permutes
        free = compiled(left_to_jit)
        assert free.flops.total / report.flops.total == 4 * COUNT / ticks
        kinds = {
            array.partition("[")[0]
            for each in free.communication
            if each.kind == "all-gather"
            for array in each.arrays
        }
        assert kinds == {"bf16" if report is v5e else "f32"}
        gathered = 3 * kernels * 2
        assert free.sent("model") == times * gathered
        assert free.sent("data") == 4 * kernels
        assert compiled(unmarked).sent("data") == ticks * kernels
