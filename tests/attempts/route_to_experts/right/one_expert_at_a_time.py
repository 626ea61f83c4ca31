"""Send one expert's slots to each device at a time."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def route_to_experts(params, x, mesh, capacity):
    model = mesh.shape["model"]
    dim, experts = params["router"].shape

    def local(router, up, down, x):
        weights = jax.nn.softmax(x @ router)
        weight, choice = jax.lax.top_k(weights, 1)
        mine = choice == jnp.arange(experts)
        place = jnp.where(mine, jnp.cumsum(mine, axis=0) - 1, capacity)
        # Without a slot, a token goes to a last one that isn't sent.
        place = jnp.minimum(place, capacity)
        slots = jnp.zeros((experts, capacity + 1, dim))
        at = jnp.broadcast_to(jnp.arange(experts), place.shape)
        source = jnp.broadcast_to(x[:, None], (*place.shape, dim))
        slots = slots.at[at, place].set(source)[:, :capacity]
        # The experts of a device are next to each other.
        turns = slots.reshape(model, -1, capacity, dim).swapaxes(0, 1)

        def turn(_, one):
            up, down, boxes = one
            got = jax.lax.all_to_all(boxes, "model", 0, 0)
            made = jax.nn.gelu(got.reshape(-1, dim) @ up) @ down
            made = made.reshape(boxes.shape)
            return None, jax.lax.all_to_all(made, "model", 0, 0)

        _, back = jax.lax.scan(turn, None, (up, down, turns))
        back = back.swapaxes(0, 1).reshape(experts, capacity, dim)
        back = jnp.pad(back, ((0, 0), (0, 1), (0, 0)))
        token = jnp.arange(len(x))
        expert = choice[:, 0]
        slot = place[token, expert]
        dropped = jnp.count_nonzero(slot == capacity)
        total = jax.lax.psum(jax.lax.psum(dropped, "model"), "data")
        return weight * back[expert, slot], total.astype("int32")

    run = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(P(), P("model"), P("model"), P(("data", "model"))),
        out_specs=(P(("data", "model")), P()),
    )
    return jax.jit(run)(params["router"], params["up"], params["down"], x)
