"""Leave the all-to-alls to jit, by two constraints."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P


def route_to_experts(params, x, mesh, capacity):
    data, model = mesh.shape["data"], mesh.shape["model"]
    dim, experts = params["router"].shape

    def place(array, *spec):
        sharding = NamedSharding(mesh, P(*spec))
        return jax.lax.with_sharding_constraint(array, sharding)

    def fill(own):
        weights = jax.nn.softmax(own @ params["router"])
        choice = weights.argmax(axis=1)[:, None]
        weight = jnp.take_along_axis(weights, choice, axis=1)
        chosen = jax.nn.one_hot(choice[:, 0], experts, dtype=jnp.int32)
        slot = (jnp.cumsum(chosen, axis=0) * chosen).sum(axis=1) - 1
        empty = jnp.zeros((experts, capacity, dim), own.dtype)
        slots = empty.at[choice[:, 0], slot].set(own, mode="drop")
        return slots, (weight, choice[:, 0], slot)

    def collect(back, route):
        weight, choice, slot = route
        got = back.at[choice, slot].get(mode="fill", fill_value=0)
        return weight * got

    blocks = place(x.reshape(data, model, -1, dim), "data", "model")
    slots, route = jax.vmap(jax.vmap(fill))(blocks)
    # The same slots, by the device that has the tokens and by expert.
    slots = place(slots, "data", "model")
    slots = place(slots, "data", None, "model")
    hidden = jnp.einsum("abesd,edh->abesh", slots, params["up"])
    made = jnp.einsum(
        "abesh,ehd->abesd", jax.nn.gelu(hidden), params["down"]
    )
    made = place(made, "data", None, "model")
    back = place(made, "data", "model")
    y = place(jax.vmap(jax.vmap(collect))(back, route), "data", "model")
    dropped = place((route[2] >= capacity).sum(dtype=jnp.int32))
    return place(y.reshape(x.shape), ("data", "model")), dropped
