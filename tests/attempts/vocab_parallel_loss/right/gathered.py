"""Two numbers a token are gathered, of which logsumexp makes one."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def vocab_parallel_loss(hidden, embedding, labels, mesh):
    @partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P("data"), P("model"), P("data")),
        out_specs=(P("data"), P("data")),
    )
    def of_tokens(hidden, embedding, labels):
        words = len(embedding)
        logits = jnp.matmul(
            hidden, embedding.T, preferred_element_type=jnp.float32
        )
        label = labels - jax.lax.axis_index("model") * words
        mine = (label >= 0) & (label < words)
        at = jnp.clip(label, 0, words - 1)[:, None]
        logit = jnp.take_along_axis(logits, at, axis=1)[:, 0]
        logit = jnp.where(mine, logit, 0)
        part = jnp.stack([jax.nn.logsumexp(logits, axis=1), logit])
        logs, logit = jax.lax.all_gather(part, "model", axis=1)
        loss = jax.nn.logsumexp(logs, axis=0) - logit.sum(axis=0)
        # All devices along "model" have the same, and pmean says so.
        return jax.lax.pmean(loss, "model"), labels >= 0

    losses, counts = of_tokens(hidden, embedding, labels)
    number = jnp.maximum(counts.sum(), 1)
    return jnp.where(counts, losses, 0).sum() / number
