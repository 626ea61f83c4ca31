"""Send each token to the device of its expert, and back."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec as P


def route_to_experts(
    params: dict[str, jax.Array], x: jax.Array, mesh: Mesh, capacity: int
) -> tuple[jax.Array, jax.Array]:
    """Return the output of top-1 experts, and how many tokens it dropped.

    The router gives each token a probability for each expert,
    ``softmax(token @ router)``, however large these scores are. A token
    goes to its most probable expert, the first of several that are equal.
    Each device sends an expert at most ``capacity`` of its own tokens, the
    first in the order of ``x``, and drops its others for that expert, so
    which tokens are dropped depends on the number of devices. For a token
    that is kept, the output is its expert's probability times
    ``gelu(token @ up[expert]) @ down[expert]``; for a dropped token it is
    zeros, so that the residual connection of the caller passes the token
    on unchanged.

    A device sends ``F = 2 * (model - 1) / model * experts * capacity * dim
    * itemsize`` bytes over ``"model"``, in two all-to-alls, wherever the
    tokens go, and a few bytes to count the dropped ones; on CPU, XLA sends
    4 bytes per number for bfloat16 too. Gradients of ``params`` and ``x``
    send ``2 * F``, or ``3 * F`` if the caller puts the call inside
    ``jax.checkpoint``, and add up those of the experts over ``"data"`` and
    those of the router over both axes. The matrix products of the output
    take ``4 * experts * capacity * dim * hidden + 2 * tokens / devices *
    dim * experts`` FLOPs on each device.

    With one or several processes, call it inside your jitted step: outside
    ``jax.jit``, every call compiles again.

    Args:
        params: Float32 or bfloat16 arrays: ``"router"``,
            ``(dim, experts)``, replicated; ``"up"``,
            ``(experts, dim, hidden)``, and ``"down"``,
            ``(experts, hidden, dim)``, both sharded as ``P("model")``.
        x: The tokens, ``(tokens, dim)``, of the same dtype, sharded as
            ``P(("data", "model"))``. Flatten ``(batch, length, dim)``
            inside ``jax.shard_map``, because a plain ``reshape`` may move
            tokens between devices. A token may be zeros, as padding is:
            it goes to expert 0, and takes a slot like any other.
        mesh: Mesh with Auto axes ``"data"`` and ``"model"``, in this
            order.
        capacity: How many tokens each device may send to an expert, at
            least 1; it may exceed the number of the device's tokens. A
            Python int, because shapes depend on it.

    Returns:
        The output, of the shape, dtype and sharding of ``x``, and how many
        tokens all devices dropped together, a replicated int32 scalar.
        ``gelu`` is the tanh approximation, the default of
        ``jax.nn.gelu``. Gradients are sharded like ``params`` and ``x``;
        where several experts are equal, they are those of the first.
        For bfloat16, the probabilities are computed in float32, but the
        gradients of ``params`` are added up over devices in bfloat16.

    Raises:
        ValueError: From jax, if the size of ``"model"`` does not divide
            ``experts``, or the number of devices does not divide
            ``tokens``.

    Example:
        ``y, dropped = route_to_experts(params, x, mesh, capacity)`` in a
        jitted step, and then ``x + y``.

    References:
        Fedus, Zoph and Shazeer, *Switch Transformers: Scaling to Trillion
        Parameter Models with Simple and Efficient Sparsity*, 2021,
        section 2, https://arxiv.org/abs/2101.03961
    """
    # --- solution ---
    experts, dim = params["router"].shape[1], x.shape[1]
    specs = {"router": P(), "up": P("model"), "down": P("model")}
    tokens = P(("data", "model"))

    @jax.shard_map(
        mesh=mesh, in_specs=(specs, tokens), out_specs=(tokens, P())
    )
    def run(params: Any, own: Any) -> Any:
        scores = jnp.matmul(
            own, params["router"], preferred_element_type=jnp.float32
        )
        probabilities = jax.nn.softmax(scores)
        choice = probabilities.argmax(axis=1)
        # Not max, whose gradient goes to all experts that are equal.
        weight = jnp.take_along_axis(probabilities, choice[:, None], axis=1)
        # How many tokens of this device an expert has, up to each token.
        so_far = jax.nn.one_hot(choice, experts, dtype=jnp.int32).cumsum(0)
        slot = (
            jnp.take_along_axis(so_far, choice[:, None], axis=1)[:, 0] - 1
        )
        slots = jnp.zeros((experts, capacity, dim), own.dtype)
        # No slot is written twice. Unless JAX knows, its derivative also
        # scatters and gathers ids, to see which numbers were kept.
        slots = slots.at[choice, slot].set(
            own, mode="drop", unique_indices=True
        )

        # From a device's slots for all experts to all slots of its experts,
        # (experts/model, model * capacity, dim), and back.
        arrived = jax.lax.all_to_all(slots, "model", 0, 1, tiled=True)
        hidden = jnp.einsum("esd,edh->esh", arrived, params["up"])
        made = jnp.einsum(
            "esh,ehd->esd", jax.nn.gelu(hidden), params["down"]
        )
        back = jax.lax.all_to_all(made, "model", 1, 0, tiled=True)

        # Without "fill", a dropped token would read what another one left.
        y = back.at[choice, slot].get(mode="fill", fill_value=0)
        dropped = jnp.sum(slot >= capacity, dtype=jnp.int32)
        y = weight.astype(y.dtype) * y
        return y, jax.lax.psum(dropped, ("data", "model"))

    y, dropped = run(params, x)
    return y, dropped
