"""Inputs of calls of ``fsdp_adamw``."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh, PartitionSpec as P

from shardbook.inputs.shared import CountedMLP, laid_out


@cache
def clipped_adamw() -> Any:
    """Return optax's AdamW with a schedule, after clipping by global norm.

    It is the same each time. The global norm of the gradients is at most
    0.25, the learning rate rises from 0.001 to 0.01 in three steps, and
    falls afterward, and the weight decay is 0.1.
    """
    rate = optax.warmup_cosine_decay_schedule(1e-3, 1e-2, 3, 100)
    return optax.chain(
        optax.clip_by_global_norm(0.25),
        optax.adamw(rate, weight_decay=0.1),
    )


class Block(nnx.Module):
    """Causal attention and an MLP, each with a residual connection."""

    def __init__(
        self, dim: int, heads: int, constrain: Any, *, rngs: nnx.Rngs
    ) -> None:
        size = dim // heads
        self.constrain = constrain
        self.attention_norm = nnx.RMSNorm(dim, rngs=rngs)
        self.qkv = _kernel(dim, (3, heads, size), rngs=rngs)
        self.out = _kernel((heads, size), dim, axis=(-2, -1), rngs=rngs)
        self.mlp_norm = nnx.RMSNorm(dim, rngs=rngs)
        self.up = _kernel(dim, 4 * dim, rngs=rngs)
        self.down = _kernel(4 * dim, dim, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return ``(batch, length, dim)`` for an x of that shape."""
        q, k, v = jnp.unstack(self.qkv(self.attention_norm(x)), axis=-3)
        heads = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        x = self.constrain(x + self.out(heads))
        hidden = jax.nn.gelu(self.up(self.mlp_norm(x)))
        output: jax.Array = self.constrain(x + self.down(hidden))
        return output


_small = nnx.initializers.normal(0.02)


_kernel = partial(nnx.LinearGeneral, use_bias=False, kernel_init=_small)


class LanguageModel(nnx.Module):
    """A transformer that predicts the next token, without positions."""

    def __init__(
        self,
        vocabulary: int,
        dim: int,
        heads: int,
        layers: int,
        constrain: Any,
        *,
        rngs: nnx.Rngs,
    ) -> None:
        self.constrain = constrain
        self.embed = nnx.Embed(
            vocabulary, dim, embedding_init=_small, rngs=rngs
        )
        self.blocks = nnx.List(
            Block(dim, heads, constrain, rngs=rngs) for _ in range(layers)
        )
        self.norm = nnx.RMSNorm(dim, rngs=rngs)
        self.head = _kernel(dim, vocabulary, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Return logits, ``(batch, length, vocabulary)``."""
        x = self.constrain(self.embed(tokens))
        for block in self.blocks:
            x = block(x)
        output: jax.Array = self.head(self.norm(x))
        return output


def language_model(
    vocabulary: int,
    dim: int,
    heads: int,
    layers: int,
    constrain: Callable[[jax.Array], jax.Array],
) -> nnx.Module:
    """Return a small transformer that predicts the next token.

    Args:
        vocabulary: The number of different tokens.
        dim: Features of a token.
        heads: Heads of the attention; must divide ``dim``.
        layers: Blocks of attention and an MLP.
        constrain: The model calls it on the embeddings of the tokens and
            after each residual connection, with the activations, float32
            ``(batch, length, dim)``, and goes on with what it returns.

    Returns:
        A Module with float32 parameters. They are ``embed.embedding``,
        ``(vocabulary, dim)``, ``head.kernel``, ``(dim, vocabulary)``, the
        scales of the RMSNorms, and for the first block
        ``blocks.0.qkv.kernel``, ``(dim, 3, heads, dim // heads)``,
        ``blocks.0.out.kernel``, ``(heads, dim // heads, dim)``,
        ``blocks.0.up.kernel``, ``(dim, 4 * dim)``, and
        ``blocks.0.down.kernel``, ``(4 * dim, dim)``.
    """
    return LanguageModel(
        vocabulary, dim, heads, layers, constrain, rngs=nnx.Rngs(0)
    )


LM_RULES = (
    (r"embed\.embedding", P(None, ("model", "data"))),
    (r".*qkv\.kernel", P("data", None, "model")),
    (r".*out\.kernel", P("model", None, "data")),
    (r".*up\.kernel", P("data", "model")),
    (r".*down\.kernel", P("model", "data")),
    (r"head\.kernel", P("data", "model")),
    (r".*", P()),
)
"""Specs for :func:`~shardbook.inputs.language_model`.

They are FSDP and tensor parallelism together.

Heads, hidden units and vocabulary are sharded over ``"model"``, and
features over ``"data"``. The features of the embedding are sharded over
both axes, and scales are replicated.

:meta hide-value:
"""


def next_token_loss(model: Any, batch: dict[str, jax.Array]) -> jax.Array:
    """Return the mean cross-entropy of the tokens that follow.

    Args:
        model: What :func:`language_model` gives.
        batch: What :func:`tokens` gives.

    Returns:
        The mean over all tokens but the first of each row, as a float32
        scalar.
    """
    given, wanted = batch["tokens"][:, :-1], batch["tokens"][:, 1:]
    losses = optax.softmax_cross_entropy_with_integer_labels(
        model(given), wanted
    )
    mean: jax.Array = losses.mean()
    return mean


def tokens(
    rows: int, length: int, vocabulary: int, mesh: Mesh, seed: int = 0
) -> dict[str, jax.Array]:
    """Return a batch of random tokens, sharded over ``"data"``.

    Args:
        rows: The number of rows.
        length: The tokens that a model is given; a row has one more.
        vocabulary: The number of different tokens.
        mesh: Mesh with an axis ``"data"``, whose size divides ``rows``.
        seed: The seed of the tokens.

    Returns:
        Int32 ``"tokens"``, ``(rows, length + 1)``, laid out as
        ``P("data")``. Small tokens are more frequent than large ones.
    """
    rng = np.random.default_rng(seed)
    drawn = rng.random((rows, length + 1)) ** 2 * vocabulary
    batch = {"tokens": drawn.astype(np.int32)}
    placed: dict[str, jax.Array] = laid_out(batch, P("data"), mesh)
    return placed


class ResidualMLP(CountedMLP):
    """A CountedMLP whose input is added to its output."""

    def __init__(self, size: int, constrain: Any) -> None:
        super().__init__(size, seed=0)
        self.constrain = constrain
        # The path of each ends with the path of another parameter.
        down = nnx.Linear(size, size, rngs=nnx.Rngs(0))
        self.unused = nnx.Dict(down=down)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return ``(batch, size)`` for an x of that shape."""
        x = self.constrain(x)
        output: jax.Array = self.constrain(x + super().__call__(x))
        return output


def residual_mlp(
    size: int, constrain: Callable[[jax.Array], jax.Array]
) -> nnx.Module:
    """Return an MLP of two layers whose input is added to its output.

    Args:
        size: Inputs, hidden units and outputs.
        constrain: The model calls it on its inputs and its outputs, both
            float32 ``(batch, size)``, and goes on with what it returns.

    Returns:
        A Module with the parameters of :func:`mlp`, with ``calls``, an
        int32 count of its calls that is no parameter, and with a Linear
        ``unused.down``, which it does not call.
    """
    return ResidualMLP(size, constrain)


def residual_error(model: Any, batch: dict[str, jax.Array]) -> jax.Array:
    """Return the mean squared error of a model.

    Args:
        model: What :func:`residual_mlp` gives.
        batch: What :func:`examples` gives.

    Returns:
        The mean over all entries, as a float32 scalar.
    """
    error: jax.Array = model(batch["x"]) - batch["y"]
    return (error**2).mean()
