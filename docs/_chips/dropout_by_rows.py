"""Dropout of a large language model's activations, for any devices."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook.problems.dropout_by_rows import dropout_by_rows
from shardbook_site.note_chips import mesh_on
from shardscope import devices_of, program

MESH = {"data": 2, "model": 4}
ROWS, LENGTH, DIM = 32, 2048, 8192
SPEC = P("data", None, "model")


def cut(key, x, rate, spec):
    """Cut a device's block out of the whole mask."""
    whole = jax.random.bernoulli(key, 1 - rate, (ROWS, LENGTH, DIM))
    starts = [
        jax.lax.axis_index(name) * size if name else 0
        for name, size in zip(spec, x.shape, strict=True)
    ]
    kept = jax.lax.dynamic_slice(whole, starts, x.shape)
    return jnp.where(kept, x / (1 - rate), 0)


def grouped(key, x, rate, spec):
    """Draw for 128 columns at a time."""
    rows, length, columns = x.shape
    sizes = (rows, length, columns // 128)
    places = [
        jnp.arange(size) + (jax.lax.axis_index(name) * size if name else 0)
        for name, size in zip(spec, sizes, strict=True)
    ]

    def keep(key, *places):
        if not places:
            return jax.random.bernoulli(key, 1 - rate, (128,))

        def at(place):
            return keep(jax.random.fold_in(key, place), *places[1:])

        return jax.vmap(at)(places[0])

    return jnp.where(keep(key, *places).reshape(x.shape), x / (1 - rate), 0)


def gradient_on(mesh, drop):
    """Compile the gradient of a scan over four rematerialized layers."""

    @jax.jit
    @jax.grad
    @jax.shard_map(
        mesh=mesh, in_specs=(SPEC, P("model"), P()), out_specs=P()
    )
    def gradient(x, w, key):
        def layer(x, number):
            own = jax.random.fold_in(key, number)
            return jnp.tanh(drop(own, x @ w, 0.1, SPEC)), None

        layer = jax.checkpoint(layer, prevent_cse=False)
        x, _ = jax.lax.scan(layer, x, jnp.arange(4))
        squares = jnp.square(x.astype(jnp.float32))
        return jax.lax.psum(squares.sum(), tuple(MESH))

    _, (key, x) = step_on(mesh)
    model = NamedSharding(mesh, P("model"))
    w = jax.ShapeDtypeStruct((DIM, DIM // 4), x.dtype, sharding=model)
    return program(gradient, x, w, key)


def step_on(mesh, drop=dropout_by_rows):
    """Return a step for the devices of a mesh, and abstract arguments."""

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=(P(), SPEC), out_specs=SPEC)
    def step(key, x):
        return drop(key, x, 0.1, SPEC)

    def array(shape, dtype, spec):
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

    key = array((), jax.random.key(0).dtype, P())
    return step, (key, array((ROWS, LENGTH, DIM), jnp.bfloat16, SPEC))


def check(cpu, v5e, h100):
    """Assert what the page says."""
    block = 2 * ROWS * LENGTH * DIM // 8
    for report in (cpu, v5e, h100):
        assert report.collectives == {}
    assert 2.6e9 < cpu.memory.temporaries < 2.7e9
    for report in (v5e, h100):
        assert report.memory.temporaries < 1e6
        assert report.memory.total < 2.01 * block

    def temporaries(machine):
        """Those of a cut mask, and of two gradients."""
        mesh = mesh_on(MESH, devices_of(machine))
        step, arguments = step_on(mesh, cut)
        reports = (
            program(step, *arguments),
            gradient_on(mesh, dropout_by_rows),
            gradient_on(mesh, grouped),
        )
        return [report.memory.temporaries for report in reports]

    cut_out, by_entry, by_group = temporaries("v5e:2x4")
    assert 2.1e9 < cut_out < 2.2e9
    assert 12e9 < by_entry < 12.2e9
    assert 0.9e9 < by_group < 1e9
    cut_out, by_entry, by_group = temporaries("h100:1x8")
    assert cut_out < 1e6
    assert max(by_entry, by_group) < 0.9e9
