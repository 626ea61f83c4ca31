"""Train a replicated model on sharded batches."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

Batch = dict[str, jax.Array]


def mean_squared_error(model: Any, batch: Batch) -> jax.Array:
    """Return the mean over all entries of the squared errors."""
    return jnp.mean((model(batch["x"]) - batch["y"]) ** 2)


def data_parallel_step(
    model: nnx.Module, optimizer: nnx.Optimizer[nnx.Module], mesh: Mesh
) -> Callable[[Any, Any, Batch], jax.Array]:
    """Return ``step(model, optimizer, batch)``, whose loss is float32 [].

    Each device computes the gradient for its rows of the batch. For an
    MLP with a replicated optimizer, one all-reduce adds the gradients and
    the losses, which takes the bytes of the parameters, plus 4.

    Args:
        model: A model whose arrays are replicated over ``mesh``.
        optimizer: An optimizer for the model, on ``mesh`` with any
            shardings.
        mesh: Mesh with Auto axes, including ``"data"``.

    Returns:
        A function that updates and donates ``model`` and ``optimizer``,
        keeps the shardings that their arrays have here, and returns the
        loss before the update, a float32 scalar. ``batch`` has ``"x"``,
        float32 ``(rows, in_dim)``, and ``"y"``, float32
        ``(rows, out_dim)``, as NumPy arrays in a single process, or
        sharded as ``P("data")``.

    Raises:
        ValueError: From jax, in a step, if the size of ``"data"`` does
            not divide ``rows``.

    Example:
        ``step = data_parallel_step(model, optimizer, mesh)``, and then
        ``loss = step(model, optimizer, batch)``.

    References:
        Goyal et al., *Accurate, Large Minibatch SGD: Training ImageNet in
        1 Hour*, 2017, section 3, https://arxiv.org/abs/1706.02677
    """
    # --- solution ---
    rows = NamedSharding(mesh, P("data"))

    def kept(node: Any) -> nnx.StateSharding:
        state = nnx.state(node)
        return nnx.StateSharding(jax.tree.map(lambda a: a.sharding, state))

    # nnx.jit applies the shardings of an argument to its update too.
    @nnx.jit(
        in_shardings=(kept(model), kept(optimizer), rows),
        donate_argnums=(0, 1),
    )
    def step(model: Any, optimizer: Any, batch: Batch) -> Any:
        loss_and_gradient = nnx.value_and_grad(mean_squared_error)
        loss, gradient = loss_and_gradient(model, batch)
        optimizer.update(model, gradient)
        return loss

    return step
