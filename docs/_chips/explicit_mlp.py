"""A gradient step of three large branches, for any eight devices."""

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from shardbook.inputs import explicit
from shardbook.problems.explicit_mlp import explicit_mlp
from shardbook_site.note_chips import mesh_on
from shardscope import devices_of, program

MESH = {"data": 2, "model": 4}
ROWS, DIM, HIDDEN, BRANCHES = 4096, 1024, 4096, 3


def arguments_on(mesh):
    """Return abstract kernels and an abstract x."""

    def array(shape, *spec):
        sharding = NamedSharding(mesh, P(*spec))
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)

    branch = {
        "up": array((DIM, HIDDEN), None, "model"),
        "down": array((HIDDEN, DIM), "model", None),
    }
    return [branch] * BRANCHES, array((ROWS, DIM), "data", None)


def step_by(function):
    """Return the step with the gradients of a loss."""

    def loss(params, x):
        return (function(params, x) ** 2).sum(axis=1).mean()

    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))


def step_on(mesh):
    """Return the step for the devices of a mesh, and its arguments."""
    return step_by(explicit_mlp), arguments_on(explicit(mesh))


def sum_each(params, x):
    """Add up each branch by itself."""
    sharding = jax.typeof(x).sharding
    terms = [
        jnp.matmul(
            jax.nn.gelu(x @ branch["up"]),
            branch["down"],
            out_sharding=sharding,
        )
        for branch in params
    ]
    return x + sum(terms)


def check(cpu, v5e, h100):
    """Assert what the page says."""
    # The rows of a device; in a ring of four, 2 * 3/4 of them.
    once = ROWS // 2 * DIM * 4 * 2 * 3 // 4
    kernels = BRANCHES * 2 * DIM * HIDDEN * 4 // 4
    for each in (cpu, v5e, h100):
        assert each.sent("model") == 2 * once
        assert kernels <= each.sent("data") < kernels + 64
    machines = jax.devices(), devices_of("v5e:2x4"), devices_of("h100:1x8")
    for devices, forward, both in zip(
        machines, (3, 1, 1), (6, 4, 4), strict=True
    ):
        mesh = mesh_on(MESH, devices, AxisType.Explicit)
        given = arguments_on(mesh)
        found = program(jax.jit(sum_each), *given).sent("model")
        assert found == forward * once, (devices[0], found / once)
        found = program(step_by(sum_each), *given).sent("model")
        assert found == both * once, (devices[0], found / once)
