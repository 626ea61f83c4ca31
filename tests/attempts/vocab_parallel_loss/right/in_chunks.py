"""A few tokens at a time, whose logits are computed again for backward."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

CHUNKS = 4


def vocab_parallel_loss(hidden, embedding, labels, mesh):
    @jax.shard_map(
        mesh=mesh,
        in_specs=(P("data"), P("model"), P("data")),
        out_specs=P(),
    )
    def loss(hidden, embedding, labels):
        # What is shared by the turns of a loop is added up after it.
        embedding = jax.lax.pcast(embedding, "data", to="varying")
        words = len(embedding)
        first = jax.lax.axis_index("model") * words

        @jax.checkpoint
        def chunk(total, rows):
            hidden, labels = rows
            logits = (hidden @ embedding.T).astype(jnp.float32)
            top = jax.lax.stop_gradient(logits).max(axis=1)
            top = jax.lax.pmax(top, "model")
            at = labels[:, None] == first + jnp.arange(words)
            numbers = (
                jnp.exp(logits - top[:, None]).sum(axis=1),
                (logits * at).sum(axis=1),
            )
            powers, logit = jax.lax.psum(numbers, "model")
            losses = jnp.log(powers) + top - logit
            losses = jnp.where(labels == -1, 0, losses)
            return total + losses.sum(), None

        chunks = jax.tree.map(
            lambda x: x.reshape(CHUNKS, -1, *x.shape[1:]), (hidden, labels)
        )
        zero = jax.lax.pcast(jnp.zeros(()), "data", to="varying")
        total, _ = jax.lax.scan(chunk, zero, chunks)
        number = (labels != -1).sum()
        total, number = jax.lax.psum((total, number), "data")
        return total / jnp.maximum(number, 1)

    return loss(hidden, embedding, labels)
