"""Forward and backward pass, each in a shard_map, as Megatron has them."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

SPECS = (P("data"), P("model"), P("data"))


def one_hot(labels, words):
    first = jax.lax.axis_index("model") * words
    return jax.nn.one_hot(labels - first, words)


def product(hidden, embedding):
    return (hidden @ embedding.T).astype(jnp.float32)


def forward(hidden, embedding, labels):
    logits = product(hidden, embedding)
    top = jax.lax.pmax(logits.max(axis=1), "model")
    numbers = (
        jnp.exp(logits - top[:, None]).sum(axis=1),
        (logits * one_hot(labels, len(embedding))).sum(axis=1),
    )
    total, logit = jax.lax.psum(numbers, "model")
    log = top + jnp.log(total)
    counts = labels != -1
    losses = jnp.where(counts, log - logit, 0)
    loss, number = jax.lax.psum((losses.sum(), counts.sum()), "data")
    number = jnp.maximum(number, 1)
    return loss / number, log, number


def backward(hidden, embedding, labels, log, number, slope):
    softmax = jnp.exp(product(hidden, embedding) - log[:, None])
    each = jnp.where(labels != -1, slope / number, 0)
    change = (softmax - one_hot(labels, len(embedding))) * each[:, None]
    return (
        jax.lax.psum(change @ embedding, "model"),
        jax.lax.psum(change.T @ hidden, "data"),
    )


def vocab_parallel_loss(hidden, embedding, labels, mesh):
    on_mesh = partial(jax.shard_map, mesh=mesh, check_vma=False)
    first = on_mesh(
        forward, in_specs=SPECS, out_specs=(P(), P("data"), P())
    )
    second = on_mesh(
        backward,
        in_specs=(*SPECS, P("data"), P(), P()),
        out_specs=SPECS[:2],
    )

    @jax.custom_vjp
    def loss(*arrays):
        return first(*arrays)[0]

    def keep(*arrays):
        value, *rest = first(*arrays)
        return value, (*arrays, *rest)

    loss.defvjp(keep, lambda kept, slope: (*second(*kept, slope), None))
    return loss(hidden, embedding, labels)
