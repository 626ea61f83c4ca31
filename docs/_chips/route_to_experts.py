"""The output of sixteen experts, for any eight devices."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook.problems.route_to_experts import route_to_experts
from shardbook_site.note_chips import mesh_on
from shardscope import devices_of, program

MESH = {"data": 1, "model": 8}
# The sizes of Llama 4 Scout, without the gates of its experts.
EXPERTS, DIM, HIDDEN = 16, 5120, 8192
# 4,096 tokens on each device, a quarter more slots than tokens.
TOKENS, CAPACITY = 8 * 4096, 320
ROWS = P(("data", "model"))


def by_einsum(params, x, mesh, capacity):
    """Dispatch and combine by one-hot products."""

    def place(array, *spec):
        sharding = NamedSharding(mesh, P(*spec))
        return jax.lax.with_sharding_constraint(array, sharding)

    groups = x.reshape(mesh.size, -1, x.shape[1])
    weights = jax.nn.softmax(groups @ params["router"])
    chosen = jax.nn.one_hot(weights.argmax(-1), weights.shape[-1])
    slot = ((chosen.cumsum(1) * chosen).sum(-1) - 1).astype(int)
    mask = chosen[..., None] * jax.nn.one_hot(slot, capacity)[:, :, None]
    slots = place(jnp.einsum("gtec,gtd->egcd", mask, groups), "model")
    hidden = jax.nn.gelu(jnp.einsum("egcd,edh->egch", slots, params["up"]))
    made = jnp.einsum("egch,ehd->egcd", hidden, params["down"])
    mask *= weights.max(-1)[..., None, None]
    y = jnp.einsum("gtec,egcd->gtd", mask, made).reshape(x.shape)
    return place(y, ("data", "model")), (slot >= capacity).sum()


def array_on(mesh, shape, spec, dtype=jnp.float32):
    """Return an abstract array."""
    sharding = NamedSharding(mesh, spec)
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def step_on(mesh, *, route=route_to_experts):
    """Return a layer for the devices of a mesh, and abstract arguments."""
    params = {
        "router": array_on(mesh, (DIM, EXPERTS), P()),
        "up": array_on(mesh, (EXPERTS, DIM, HIDDEN), P("model")),
        "down": array_on(mesh, (EXPERTS, HIDDEN, DIM), P("model")),
    }

    @jax.jit
    def layer(params, x):
        return route(params, x, mesh, CAPACITY)

    return layer, (params, array_on(mesh, (TOKENS, DIM), ROWS))


def ragged_on(mesh):
    """Return an exchange of as many tokens as there are, and arguments."""

    @jax.jit
    @jax.shard_map(
        mesh=mesh, in_specs=(ROWS, ROWS), out_specs=ROWS, check_vma=False
    )
    def exchange(own, sizes):
        of_all = jax.lax.all_gather(sizes, "model", tiled=True)
        of_all = of_all.reshape(8, 8)  # (sender, receiver)
        here = jax.lax.axis_index("model")
        return jax.lax.ragged_all_to_all(
            own,
            jnp.zeros((TOKENS, DIM), own.dtype),
            jnp.cumsum(sizes) - sizes,
            sizes,
            (jnp.cumsum(of_all, axis=0) - of_all)[here],
            of_all[:, here],
            axis_name="model",
        )

    sizes = array_on(mesh, (64,), ROWS, jnp.int32)
    return exchange, (array_on(mesh, (TOKENS, DIM), ROWS), sizes)


def gradient_of_scatter(mesh, **options):
    """Return the gradient of a device's dispatch in bfloat16, compiled."""

    def loss(own, choice, slot):
        slots = jnp.zeros((EXPERTS, CAPACITY, DIM), own.dtype)
        slots = slots.at[choice, slot].set(own, mode="drop", **options)
        return (slots.astype(jnp.float32) ** 2).sum()

    own = array_on(mesh, (TOKENS // 8, DIM), P(), jnp.bfloat16)
    index = array_on(mesh, (TOKENS // 8,), P(), jnp.int32)
    return jax.jit(jax.grad(loss)).lower(own, index, index).compile()


def check(cpu, v5e, h100):
    """Assert what the page says."""
    # One all-to-all of the slots, in float32.
    one = EXPERTS * CAPACITY * DIM * 4 * 7 // 8
    experts = 4 * EXPERTS * CAPACITY * DIM * HIDDEN
    for report, parts in ((cpu, 2), (h100, 2), (v5e, 1.5)):
        assert report.collectives["all-to-all"] == 2
        assert parts * one <= report.sent("model") < parts * one + 1000
        assert 1 <= report.flops.total / experts < 1.001
    for name, usual in (("v5e:2x4", v5e), ("h100:1x8", h100)):
        mesh = mesh_on(MESH, devices_of(name))
        step, arguments = step_on(mesh, route=by_einsum)
        other = program(step, *arguments)
        assert 6.4 < other.sent("model") / usual.sent("model") < 6.43
        assert 1.49 < other.flops.total / usual.flops.total < 1.51
        exchange, arguments = ragged_on(mesh)
        ragged = program(exchange, *arguments)
        assert ragged.collectives["ragged-all-to-all"] == 1
        plain = gradient_of_scatter(mesh)
        told = gradient_of_scatter(mesh, unique_indices=True)
        more, less = (program(each).memory for each in (plain, told))
        assert more.temporaries > 2 * less.temporaries
        if usual is v5e:
            more, less = (
                each.cost_analysis()["bytes accessed"]
                for each in (plain, told)
            )
            assert 2.7 < more / less < 2.8
