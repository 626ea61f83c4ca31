# wrong: more
"""Gather the tokens, compute the device's experts for all, and add up."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def route_to_experts(params, x, mesh, capacity):
    model, experts = mesh.shape["model"], params["router"].shape[1]
    tokens = P(("data", "model"))
    specs = {"router": P(), "up": P("model"), "down": P("model")}

    @jax.shard_map(
        mesh=mesh, in_specs=(specs, tokens), out_specs=(tokens, P())
    )
    def run(params, own):
        weights = jax.nn.softmax(own @ params["router"])
        choice = weights.argmax(axis=1)
        chosen = jax.nn.one_hot(choice, experts, dtype=jnp.int32)
        slot = (chosen.cumsum(0) * chosen).sum(axis=1)
        kept = slot <= capacity
        weight = jnp.take_along_axis(weights, choice[:, None], axis=1)[:, 0]
        weight = jnp.where(kept, weight, 0)
        whole, weight, choice = (
            jax.lax.all_gather(each, "model", tiled=True)
            for each in (own, weight, choice)
        )
        first = jax.lax.axis_index("model") * (experts // model)
        mine = first + jnp.arange(experts // model) == choice[:, None]
        hidden = jax.nn.gelu(jnp.einsum("td,edh->teh", whole, params["up"]))
        made = jnp.einsum("teh,ehd->ted", hidden, params["down"])
        terms = jnp.where(mine[..., None], made, 0).sum(1) * weight[:, None]
        y = jax.lax.psum_scatter(terms, "model", tiled=True)
        return y, jax.lax.psum(jnp.sum(~kept), ("data", "model"))

    return run(params, x)
