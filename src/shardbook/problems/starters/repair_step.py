"""Train a small transformer on a mesh, with microbatches."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

WORDS, LENGTH, DIM, HEADS, LAYERS, PARTS = 1024, 16, 64, 8, 1, 4
SPECS = {
    "embed": P("model", None),
    "qkv": P(None, None, "model", None),
    "out": P("model", None, None),
    "up": P(None, "model"),
    "down": P("model", None),
}


class Block(nnx.Module):
    """Causal attention and an MLP."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        init = nnx.initializers.normal(0.05)
        size = DIM // HEADS
        self.qkv = nnx.Param(init(rngs(), (DIM, 3, HEADS, size)))
        self.out = nnx.Param(init(rngs(), (HEADS, size, DIM)))
        self.up = nnx.Param(init(rngs(), (DIM, 4 * DIM)))
        self.down = nnx.Param(init(rngs(), (4 * DIM, DIM)))

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return ``(rows, length, DIM)`` for an x of that shape."""
        qkv = jnp.einsum("bsd,dchk->cbshk", normed(x), self.qkv[...])
        mixed = jax.nn.dot_product_attention(*qkv, is_causal=True)
        x += jnp.einsum("bshk,hkd->bsd", mixed, self.out[...])
        hidden = jax.nn.gelu(normed(x) @ self.up[...])
        return x + hidden @ self.down[...]


class Transformer(nnx.Module):
    """A language model whose embedding is its head as well."""

    def __init__(self, mesh: Mesh, rngs: nnx.Rngs) -> None:
        init = nnx.initializers.normal(0.05)
        self.mesh = mesh
        self.embed = nnx.Param(init(rngs(), (WORDS, DIM)))
        self.places = nnx.Param(init(rngs(), (LENGTH, DIM)))
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])

    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Return logits, ``(rows, length, WORDS)``."""
        x = self.embed[...][tokens] + self.places[...]
        for block in self.blocks:
            x = block(x)
        logits = normed(x) @ self.embed[...].T
        layout = NamedSharding(self.mesh, P())
        return jax.lax.with_sharding_constraint(logits, layout)


def normed(x: jax.Array) -> jax.Array:
    """Return x, divided by the root of its mean square."""
    return x * jax.lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6)


def loss_of(model: Any, tokens: jax.Array) -> jax.Array:
    """Return the mean cross-entropy of each next word."""
    logits = model(tokens[:, :-1])
    is_label = jnp.arange(logits.shape[-1]) == tokens[:, 1:, None]
    at_label = jnp.sum(jnp.where(is_label, logits, 0), axis=-1)
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - at_label)


def made(build: Callable[[], Any], mesh: Mesh) -> Any:
    """Return what ``build`` makes, of which each device makes its shards.

    Parameters are sharded by ``SPECS``, and moments like their parameters.
    """

    def sharding(path: Any, leaf: jax.ShapeDtypeStruct) -> NamedSharding:
        names = {str(getattr(key, "key", "")) for key in path}
        spec = next((SPECS[n] for n in SPECS if n in names), P())
        return NamedSharding(mesh, spec if leaf.ndim else P())

    graphdef, shapes = nnx.split(nnx.eval_shape(build))
    shardings = jax.tree.map_with_path(sharding, shapes)
    init = jax.jit(lambda: nnx.state(build()), out_shardings=shardings)
    return nnx.merge(graphdef, init())


def repair_step(
    mesh: Mesh,
) -> tuple[Any, Any, Callable[..., Any], Callable[..., Any]]:
    """Return ``model, optimizer, place, step`` of a training run.

    ``loss = step(model, optimizer, place(tokens))`` trains the model on a
    batch, in microbatches, and returns the mean loss before the update.

    Args:
        mesh: Mesh with Auto axes ``"data"`` and ``"model"``.

    Returns:
        A Transformer and its AdamW with clipping and a schedule, float32,
        both sharded by ``SPECS``, moments like their parameters; and two
        functions. ``place`` takes the host's int32 tokens,
        ``(rows, LENGTH + 1)``, and returns them sharded as ``P("data")``,
        in a single process. ``step`` takes all three, updates the model
        and the optimizer, and returns the loss before the update, a
        float32 scalar.

    Raises:
        ValueError or TypeError: From jax, in ``place`` or the step, if
            ``PARTS`` times the size of ``"data"`` does not divide ``rows``.

    Example:
        ``model, optimizer, place, step = repair_step(mesh)``

    References:
        https://github.com/AI-Hypercomputer/maxtext/pull/5056
    """
    rows = NamedSharding(mesh, P("data"))
    rates = optax.warmup_cosine_decay_schedule(0.0, 0.01, 2, 100)
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rates))

    model = made(lambda: Transformer(mesh, nnx.Rngs(0)), mesh)
    optimizer = nnx.jit(
        lambda model: nnx.Optimizer(model, tx, wrt=nnx.Param)
    )(model)

    def place(tokens: np.ndarray) -> jax.Array:
        return jax.jit(lambda x: x, out_shardings=rows)(jnp.asarray(tokens))

    @nnx.jit
    def step(model: Any, optimizer: Any, tokens: jax.Array) -> jax.Array:
        graphdef, params = nnx.split(model)

        @jax.value_and_grad
        def gradient(params: Any, part: jax.Array) -> Any:
            return loss_of(nnx.merge(graphdef, params), part)

        def add(total: Any, part: jax.Array) -> Any:
            found = gradient(params, part)
            return jax.tree.map(jnp.add, total, found), None

        parts = tokens.reshape(-1, PARTS, LENGTH + 1).swapaxes(0, 1)
        zeros = jax.tree.map(jnp.zeros_like, (jnp.zeros(()), params))
        total, _ = jax.lax.scan(add, zeros, parts)
        loss, gradients = jax.tree.map(lambda term: term / PARTS, total)
        optimizer.update(model, gradients)
        return loss

    return model, optimizer, place, step
