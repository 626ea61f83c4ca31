"""Run a two-layer MLP on a mesh with a single all-reduce."""

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

Params = dict[str, dict[str, jax.Array]]


def megatron_mlp(params: Params, x: jax.Array, mesh: Mesh) -> jax.Array:
    """Return ``gelu(x @ up + b) @ down + b``, ``(batch, out_dim)``.

    The hidden units are sharded over the mesh axis ``"model"``: they are
    the columns of ``up`` and the rows of ``down``. Each device therefore
    computes one term of a sum, ``4 * batch / data * out_dim`` bytes, and
    one all-reduce over ``"model"`` adds the terms. In a ring, a device
    sends ``2 * (model - 1) / model`` times these bytes.

    Args:
        params: For each of ``"up"`` and ``"down"`` a ``"kernel"``,
            ``(in_dim, hidden)`` and ``(hidden, out_dim)``, and a
            ``"bias"``, ``(hidden,)`` and ``(out_dim,)``; float32, on any
            device. Each device of the mesh gets
            ``4 * (hidden * (in_dim + 1 + out_dim) / model + out_dim)``
            bytes of these arrays.
        x: Input, float32 ``(batch, in_dim)``, on any device.
        mesh: Mesh with Auto axes ``"data"`` and ``"model"``.

    Returns:
        The output, float32 ``(batch, out_dim)``, sharded as ``P("data")``.
        ``gelu`` is the tanh approximation, the default of ``jax.nn.gelu``.

    Raises:
        ValueError: From jax, if the size of ``"model"`` does not divide
            ``hidden``, or the size of ``"data"`` does not divide
            ``batch``.

    Example:
        ``megatron_mlp(params, x, mesh).sharding.spec`` is ``P("data")``.

    References:
        Shoeybi et al., *Megatron-LM: Training Multi-Billion Parameter
        Language Models Using Model Parallelism*, 2019, section 3,
        https://arxiv.org/abs/1909.08053
    """
    # --- solution ---
    specs = {
        "up": {"kernel": P(None, "model"), "bias": P("model")},
        "down": {"kernel": P("model", None), "bias": P()},
    }
    shardings = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)
    batch = NamedSharding(mesh, P("data"))
    forward = jax.jit(
        mlp, in_shardings=(shardings, batch), out_shardings=batch
    )
    # jit refuses arrays that are committed to another sharding.
    params, x = jax.device_put((params, x), (shardings, batch))
    output: jax.Array = forward(params, x)  # float32[batch@data,out_dim]
    return output


def mlp(params: Params, x: jax.Array) -> jax.Array:
    """Return the output of the two layers, without naming a mesh."""
    up, down = params["up"], params["down"]
    hidden = jax.nn.gelu(x @ up["kernel"] + up["bias"])
    return hidden @ down["kernel"] + down["bias"]
