"""Gradient accumulation for twelve layers in a loop, on eight devices."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook.inputs import squared_error
from shardbook.problems.accumulate_gradients import accumulate_gradients
from shardbook_site.note_chips import mesh_on
from shardscope import devices_of, program

MESH = {"data": 8}
ROWS, DIM, LAYERS, COUNT = 32768, 2048, 12, 16


def scanned(kernels, batch):
    """Return the mean squared error of layers in a loop."""

    def layer(x, kernel):
        return x + jnp.tanh(x @ kernel), None

    x, _ = jax.lax.scan(layer, batch["x"], kernels)
    return ((x - batch["y"]) ** 2).mean()


def naive(loss, params, batch):
    """Accumulate as on the page, where the compiler communicates."""

    def split(x):
        return x.reshape(-1, COUNT, *x.shape[1:]).swapaxes(0, 1)

    def add(sums, part):
        terms = jax.value_and_grad(loss)(params, part)
        return jax.tree.map(jnp.add, sums, terms), None

    zeros = jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)
    sums, _ = jax.lax.scan(add, zeros, jax.tree.map(split, batch))
    return jax.tree.map(lambda total: total / COUNT, sums)


def array(mesh, shape, *spec):
    """Return an abstract array for the devices of a mesh."""
    sharding = NamedSharding(mesh, P(*spec))
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)


def batch_on(mesh):
    """Return an abstract batch."""
    return {name: array(mesh, (ROWS, DIM), "data") for name in ("x", "y")}


def step_on(mesh):
    """Return the function for the devices of a mesh, and arguments."""
    kernels = array(mesh, (LAYERS, DIM, DIM))
    function = accumulate_gradients(scanned, mesh, COUNT)
    return function, (kernels, batch_on(mesh))


def check(cpu, v5e, h100):
    """Assert what the page says."""
    sent = 2 * (4 * LAYERS * DIM**2 + 4) * 7 // 8
    for each in (cpu, v5e, h100):
        assert each.sent("data") == sent
        assert all(part.times == 1 for part in each.communication)
    for machine in ("v5e:2x4", "h100:1x8"):
        mesh = mesh_on(MESH, devices_of(machine))
        up, down = (DIM, 2 * DIM), (2 * DIM, DIM)
        params = {
            name: {
                "kernel": array(mesh, shape),
                "bias": array(mesh, shape[1:]),
            }
            for name, shape in (("up", up), ("down", down))
        }
        whole = sum(4 * leaf.size for leaf in jax.tree.leaves(params))
        mlp = program(partial(naive, squared_error), params, batch_on(mesh))
        # The loss is added up in each turn, and the gradients once.
        assert mlp.collectives["all-reduce"] > COUNT
        assert mlp.sent("data") == 2 * whole * 7 // 8 + 7 * COUNT
        # In a model with layers in a loop, the gradients are too.
        _, arguments = step_on(mesh)
        deep = program(partial(naive, scanned), *arguments)
        assert round(deep.sent("data") / sent, 3) == COUNT
