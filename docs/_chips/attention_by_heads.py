"""Gradients of grouped-query attention, for any eight devices."""

from functools import partial
from unittest import mock

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook.problems.attention_by_heads import attention_by_heads
from shardbook_site.note_chips import mesh_on
from shardscope import devices_of, program

MESH = {"data": 1, "model": 8}
# A layer of Qwen2.5-3B, which has two key-value heads.
BATCH, LENGTH, DIM, HEADS, HEAD = 4, 1024, 2048, 16, 128


def left_to_jit(params, x, mesh):
    """Return the output of plain attention."""
    q, k, v = (jnp.einsum("bld,dhk->blhk", x, params[n]) for n in "qkv")
    y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return jnp.einsum("blhk,hkd->bld", y, params["out"])


def step_on(mesh, kv_heads=2, attention=attention_by_heads):
    """Return the gradients for the devices of a mesh, and arguments."""

    def array(shape, *spec):
        sharding = NamedSharding(mesh, P(*spec))
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)

    split = kv_heads % mesh.shape["model"] == 0
    kv = (None, "model") if split else ()
    params = {
        "q": array((DIM, HEADS, HEAD), None, "model"),
        "k": array((DIM, kv_heads, HEAD), *kv),
        "v": array((DIM, kv_heads, HEAD), *kv),
        "out": array((HEADS, HEAD, DIM), "model"),
    }

    def loss(params, x):
        return (attention(params, x, mesh) ** 2).sum()

    gradient = jax.jit(jax.grad(loss, argnums=(0, 1)))
    return gradient, (params, array((BATCH, LENGTH, DIM), "data"))


def unmarked(params, x, mesh):
    """Return the solution's output, with x the same along "model"."""
    with mock.patch.object(jax.lax, "pcast", lambda x, *_, **__: x):
        return attention_by_heads(params, x, mesh)


def unchecked(params, x, mesh):
    """Return the solution's output, where jax checks nothing."""
    without = partial(jax.shard_map, check_vma=False)
    with mock.patch.object(jax, "shard_map", without):
        return attention_by_heads(params, x, mesh)


def check(cpu, v5e, h100):
    """Assert what the page says."""
    # An all-reduce over eight devices sends 2 * 7/8 of its bytes.
    one_sum = 7 * BATCH * LENGTH * DIM
    kernels = 7 * 2 * DIM * 2 * HEAD
    machines = jax.devices(), devices_of("v5e:2x4"), devices_of("h100:1x8")
    for report, devices in zip((cpu, v5e, h100), machines, strict=True):
        mesh = mesh_on(MESH, devices)

        def compiled(kv_heads, attention, mesh=mesh):
            step, arguments = step_on(mesh, kv_heads, attention)
            return program(step, *arguments)

        assert report.sent("model") == 2 * one_sum + kernels
        assert set(report.collectives) == {"all-reduce"}
        by_jit = compiled(2, left_to_jit)
        assert 1.02 < by_jit.sent("model") / report.sent("model") < 1.05
        assert by_jit.collectives["all-gather"]
        assert 1.08 < by_jit.flops.total / report.flops.total < 1.09
        free = compiled(2, unchecked)
        assert round(free.sent("model") / report.sent("model"), 2) == 1.47
        # The sums of x's gradient, which only the CPU's compiler keeps.
        sums = 3 if report is cpu else 1
        assert (
            compiled(8, left_to_jit).sent("model") == (1 + sums) * one_sum
        )
        assert compiled(8, unmarked).sent("model") == (1 + sums) * one_sum
