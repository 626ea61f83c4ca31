"""Train a replicated model on batches that are sharded."""

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
    """Return a training step that shards its batch over ``"data"``.

    Each device computes the gradient for its rows. For an MLP, the
    gradients and the losses are all-reduced: the bytes of the parameters,
    and 4 more.

    Args:
        model: A model that is replicated over ``mesh``.
        optimizer: An optimizer for it, laid out on ``mesh`` in any way.
        mesh: Mesh with Auto axes, one of them ``"data"``.

    Returns:
        ``step(model, optimizer, batch)``, which updates and donates both,
        leaves their arrays laid out as here, and returns the loss before
        the update, float32. ``batch`` has ``"x"``, float32 ``(rows,
        in_dim)``, and ``"y"``, float32 ``(rows, out_dim)``, of NumPy or
        laid out as ``P("data")``.

    Raises:
        ValueError: From jax, in a step whose rows ``"data"`` does not
            divide.

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

    # The shardings of an argument hold for what it is updated to as well.
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
