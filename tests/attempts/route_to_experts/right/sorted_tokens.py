"""Sort the tokens by expert, and exchange slots without tiling."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

ROWS = P(("data", "model"))


def expert(up, down, tokens):
    return jax.nn.gelu(tokens @ up) @ down


def local(model, capacity, params, x):
    dim, experts = params["router"].shape
    logits = x @ params["router"]
    choice = jnp.argmax(logits, axis=-1)
    order = jnp.argsort(choice, stable=True)
    ordered = choice[order]
    first = jnp.searchsorted(ordered, jnp.arange(experts))
    place = jnp.arange(len(x)) - first[ordered]
    kept = place < capacity
    index = jnp.where(kept, ordered * capacity + place, experts * capacity)
    slots = jnp.zeros((experts * capacity + 1, dim)).at[index].set(x[order])
    # (receiver, experts of the receiver, capacity, dim)
    boxes = slots[:-1].reshape(model, -1, capacity, dim)
    got = jax.lax.all_to_all(boxes, "model", split_axis=0, concat_axis=0)
    got = got.swapaxes(0, 1).reshape(experts // model, -1, dim)
    made = jax.vmap(expert)(params["up"], params["down"], got)
    made = made.reshape(-1, model, capacity, dim).swapaxes(0, 1)
    back = jax.lax.all_to_all(made, "model", split_axis=0, concat_axis=0)
    rows = jnp.concatenate([back.reshape(-1, dim), jnp.zeros((1, dim))])
    gate = jnp.take_along_axis(
        jax.nn.softmax(logits), choice[:, None], axis=1
    )
    y = jnp.zeros_like(x).at[order].set(rows[index]) * gate
    dropped = jax.lax.psum(jnp.sum(~kept), ("data", "model"))
    return y, dropped.astype(jnp.int32)


def route_to_experts(params, x, mesh, capacity):
    specs = {"router": P(), "up": P("model"), "down": P("model")}
    run = jax.shard_map(
        partial(local, mesh.shape["model"], capacity),
        mesh=mesh,
        in_specs=(specs, ROWS),
        out_specs=(ROWS, P()),
        check_vma=False,
    )
    return run(params, x)
