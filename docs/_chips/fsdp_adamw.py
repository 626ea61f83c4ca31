"""An AdamW step of a transformer, for any eight devices."""

from unittest import mock

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook.inputs import (
    LM_RULES,
    clipped_adamw,
    language_model,
    next_token_loss,
)
from shardbook.problems.fsdp_adamw import fsdp_adamw
from shardbook_site.note_chips import mesh_on
from shardscope import devices_of, program

MESH = {"data": 8, "model": 1}
VOCABULARY, DIM, HEADS, LAYERS = 32768, 2048, 16, 4
ROWS, LENGTH = 16, 1024

jit = jax.jit


def abstract_init(function, **options):
    """Stand for ``jax.jit``, for devices that can't run the program."""
    if options.keys() != {"out_shardings"}:
        return jit(function, **options)

    def abstract(leaf, sharding):
        return jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=sharding
        )

    return lambda: jax.tree.map(
        abstract, jax.eval_shape(function), options["out_shardings"]
    )


def step_on(mesh, *, constrained=True):
    """Return a step for the devices of a mesh, and abstract arguments."""

    def build(constrain):
        use = constrain if constrained else lambda x: x
        return language_model(VOCABULARY, DIM, HEADS, LAYERS, use)

    with mock.patch.object(jax, "jit", abstract_init):
        model, optimizer, step = fsdp_adamw(
            build, next_token_loss, clipped_adamw(), mesh, LM_RULES
        )
    tokens = jax.ShapeDtypeStruct(
        (ROWS, LENGTH + 1),
        jnp.int32,
        sharding=NamedSharding(mesh, P("data")),
    )
    return step, (model, optimizer, {"tokens": tokens})


def sent(report, kind):
    """Count the bytes that a device sends in collectives of a kind."""
    return sum(
        each.sent * each.times
        for each in report.communication
        if each.kind == kind
    )


def check(cpu, v5e, h100):
    """Assert what the page says."""
    # All kernels, whose gathers each send 7/8 of a kernel.
    kernels = 4 * (2 * VOCABULARY * DIM + LAYERS * 12 * DIM * DIM)
    embedding = 4 * VOCABULARY * DIM
    gathers = (kernels - embedding) * 7 // 8
    # A gather of all but the embedding, and twice the gradients, or once.
    assert gathers < sent(cpu, "all-gather") < 1.01 * gathers
    assert 2 * gathers < sent(cpu, "all-reduce") < 2.01 * gathers
    assert gathers < sent(h100, "all-gather") < 1.01 * gathers
    assert gathers < 1.01 * sent(h100, "reduce-scatter") < 1.02 * gathers
    # On a TPU, permutations in a loop take the place of both.
    assert v5e.collectives["collective-permute"] > 100
    assert sent(v5e, "collective-permute") > v5e.sent("data") / 2
    assert 1.4 < cpu.sent("data") / v5e.sent("data") < 1.5
    assert 1.4 < cpu.sent("data") / h100.sent("data") < 1.5
    machines = jax.devices(), devices_of("v5e:2x4"), devices_of("h100:1x8")
    for report, devices in zip((cpu, v5e, h100), machines, strict=True):
        mesh = mesh_on(MESH, devices)
        step, arguments = step_on(mesh, constrained=False)
        free = program(step, *arguments)
        assert 6.9 < free.sent("data") / report.sent("data") < 7.6
        assert free.memory.total > 1.5 * report.memory.total
