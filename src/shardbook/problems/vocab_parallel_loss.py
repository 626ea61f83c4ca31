"""Compute the loss of a language model without whole rows of logits."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec as P


def vocab_parallel_loss(
    hidden: jax.Array, embedding: jax.Array, labels: jax.Array, mesh: Mesh
) -> jax.Array:
    """Return the mean cross entropy of the tokens that have a label.

    The logits are ``hidden @ embedding.T``, in float32 for bfloat16 arrays
    too. Each device computes those of its own tokens and words,
    ``4 * tokens / data * words / model`` bytes. For each token, the
    devices along ``"model"`` all-reduce three float32 numbers: the
    maximum, the sum of the exponentials and the logit of the label. The
    backward pass all-reduces the gradient of ``hidden`` over ``"model"``
    and the gradient of ``embedding`` over ``"data"``.

    Call it inside your jitted step: outside ``jax.jit``, every call
    compiles each operation again.

    Args:
        hidden: What the last layer gives, float32 or bfloat16
            ``(tokens, dim)``, sharded as ``P("data")``.
        embedding: A row for each word, ``(words, dim)``, of the same
            dtype, sharded as ``P("model")``.
        labels: The word that follows each token, int32 ``(tokens,)``,
            sharded as ``P("data")``. A token with a negative label, such
            as -1, is left out.
        mesh: Mesh with Auto axes ``"data"`` and ``"model"``.

    Returns:
        A float32 scalar, replicated. It is 0 if no token has a label.

    Raises:
        ValueError: From jax, if the size of ``"model"`` does not divide
            ``words``, or the size of ``"data"`` does not divide
            ``tokens``.

    Example:
        In a jitted step, ``jax.grad(vocab_parallel_loss, argnums=(0, 1))(
        hidden, embedding, labels, mesh)`` gives the gradients of
        ``hidden`` and ``embedding``, sharded and rounded like these.

    References:
        Shoeybi et al., *Megatron-LM: Training Multi-Billion Parameter
        Language Models Using Model Parallelism*, 2019, section 3,
        https://arxiv.org/abs/1909.08053
    """
    # --- solution ---
    specs = P("data"), P("model"), P("data")

    @jax.shard_map(mesh=mesh, in_specs=specs, out_specs=P())
    def loss(hidden: Any, embedding: Any, labels: Any) -> Any:
        logits = jnp.matmul(  # float32[tokens/data,words/model]
            hidden, embedding.T, preferred_element_type=jnp.float32
        )
        # pmax has no derivative, and the maximum cancels out anyway.
        own = jax.lax.stop_gradient(logits.max(axis=1))
        maximum = jax.lax.pmax(own, "model")
        exponentials = jnp.exp(logits - maximum[:, None])
        total = jax.lax.psum(exponentials.sum(axis=1), "model")

        first = jax.lax.axis_index("model") * len(embedding)
        words = first + jnp.arange(len(embedding))
        mine = jnp.where(words == labels[:, None], logits, 0)
        logit = jax.lax.psum(mine.sum(axis=1), "model")

        counts = labels >= 0
        # Both may be thousands, so subtract them first.
        below = maximum - logit
        losses = jnp.where(counts, jnp.log(total) + below, 0)
        number = jax.lax.psum(counts.sum(), "data")
        return jax.lax.psum(losses.sum(), "data") / jnp.maximum(number, 1)

    result: jax.Array = loss(hidden, embedding, labels)
    return result
