"""One-hot labels, and a constraint on each large array."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P


def vocab_parallel_loss(hidden, embedding, labels, mesh):
    def place(x, *spec):
        sharding = NamedSharding(mesh, P(*spec))
        return jax.lax.with_sharding_constraint(x, sharding)

    @jax.jit
    def loss(hidden, embedding, labels):
        hidden, labels = place(hidden, "data"), place(labels, "data")
        embedding = place(embedding, "model")
        logits = jnp.einsum("td,wd->tw", hidden, embedding)
        logits = place(logits.astype(jnp.float32), "data", "model")
        kept = (labels >= 0).astype(jnp.float32)
        one_hot = jax.nn.one_hot(labels, len(embedding))
        logs = jax.nn.log_softmax(logits)
        total = -(one_hot * logs).sum()
        return place(total / jnp.clip(kept.sum(), 1))

    return loss(hidden, embedding, labels)
