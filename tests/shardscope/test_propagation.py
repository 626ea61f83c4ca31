"""Shardy in this process shards each value as XLA does."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest
from flax import linen as nn, nnx
from inspected import comparing
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from training_step import MESH, array

EXPLICIT = jax.make_mesh(
    (2, 4), ("data", "model"), (AxisType.Explicit,) * 2
)
TOKENS = array((8, 16), P("data"), "int32")
ROWS = array((32, 64), P("data"))
UP = array((64, 128), P("data", "model"))
DOWN = array((128, 64), P("model", "data"))
IMAGES = array((8, 16, 16, 8), P("data"))
OPTIMIZER = optax.adamw(1e-3)
Placed = Callable[[Any], P]


def fsdp_and_tensor_parallel(leaf: Any) -> P:
    """Give the spec of a parameter, as many write it."""
    return P("data", "model") if leaf.ndim > 1 else P()


def tensor_parallel(leaf: Any) -> P:
    """Give the spec of a parameter in tensor parallelism."""
    return P(None, "model") if leaf.ndim > 1 else P()


def replicated(leaf: Any) -> P:
    """Give the spec of data parallelism."""
    return P()


def place(tree: Any, spec: Placed) -> Any:
    """Make a tree abstract, and say how it is sharded."""
    return jax.tree.map(lambda x: array(x.shape, spec(x), x.dtype), tree)


class Block(nnx.Module):
    """A block of a transformer."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        """Make the layers."""
        self.attention = nnx.MultiHeadAttention(
            4, 64, decode=False, rngs=rngs
        )
        self.norm = nnx.LayerNorm(64, rngs=rngs)
        self.up = nnx.Linear(64, 128, rngs=rngs)
        self.down = nnx.Linear(128, 64, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply the layers."""
        x = x + self.attention(self.norm(x))
        return x + self.down(nnx.silu(self.up(x)))


class Transformer(nnx.Module):
    """A small language model."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        """Make the layers."""
        self.embed = nnx.Embed(256, 64, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(2)])
        self.head = nnx.Linear(64, 256, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Apply the layers."""
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Convolutions(nnx.Module):
    """A model with state and randomness."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        """Make the layers."""
        self.conv = nnx.Conv(8, 16, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.drop = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply the layers."""
        x = nnx.relu(self.norm(self.conv(x)))
        return self.drop(nnx.avg_pool(x, (2, 2), (2, 2)))


class Attention(nn.Module):
    """A language model in Linen."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Apply the layers."""
        x = nn.Embed(256, 64)(tokens)
        x = nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x))
        x = nn.gelu(nn.Dense(128)(x), approximate=False)
        return nn.Dense(256)(nn.Dropout(0.1, deterministic=False)(x))


def entropy(logits: jax.Array, tokens: jax.Array) -> jax.Array:
    """Give the loss of a language model."""
    each = optax.softmax_cross_entropy_with_integer_labels(logits, tokens)
    return each.mean()


def of_module(make: Any, spec: Placed, loss: Any, x: Any) -> Any:
    """Give the gradient of an NNX model, and its arguments."""
    model = nnx.eval_shape(lambda: make(nnx.Rngs(0)))
    graph, params, rest = nnx.split(model, nnx.Param, ...)

    def of(params: Any, rest: Any, x: Any) -> Any:
        return loss(nnx.merge(graph, params, rest, copy=True)(x), x)

    return jax.grad(of), place(params, spec), rest, x


def linen(spec: Placed) -> Any:
    """Give the gradient of a Linen model, and its arguments."""
    model = Attention()
    keys = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
    params = jax.eval_shape(model.init, keys, TOKENS)

    def loss(params: Any, tokens: Any) -> Any:
        keys = {"dropout": jax.random.key(2)}
        return entropy(model.apply(params, tokens, rngs=keys), tokens)

    return jax.grad(loss), place(params, spec), TOKENS


def adamw() -> Any:
    """Give a training step that donates its state."""
    gradient, params, rest, x = of_module(
        Transformer, fsdp_and_tensor_parallel, entropy, TOKENS
    )
    state = place(
        jax.eval_shape(OPTIMIZER.init, params), fsdp_and_tensor_parallel
    )

    def step(params: Any, state: Any, rest: Any, x: Any) -> Any:
        grads = gradient(params, rest, x)
        updates, state = OPTIMIZER.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    return jax.jit(step, donate_argnums=(0, 1)), params, state, rest, x


def layers(remat: bool) -> Any:
    """Give the gradient of layers in a scan."""

    def layer(x: Any, w: Any) -> Any:
        hidden = jax.nn.gelu(x @ w["up"], approximate=False)
        return x + hidden @ w["down"], None

    def loss(weights: Any, x: Any) -> Any:
        body = jax.checkpoint(layer) if remat else layer
        return jax.lax.scan(body, x, weights)[0].sum()

    weights = {
        "up": array((4, 64, 128), P(None, "data", "model")),
        "down": array((4, 128, 64), P(None, "model", "data")),
    }
    return jax.grad(loss), weights, ROWS


@jax.custom_vjp
def twice(x: Any) -> Any:
    """Have a derivative of its own."""
    return 2 * jnp.sin(x)


twice.defvjp(
    lambda x: (2 * jnp.sin(x), x), lambda x, g: (2 * g * jnp.cos(x),)
)


def constrained(up: Any, down: Any, x: Any) -> Any:
    """Constrain an activation."""
    sharding = NamedSharding(MESH, P("data", "model"))
    hidden = jax.lax.with_sharding_constraint(x @ up, sharding)
    return jnp.tanh(hidden) @ down


def by_hand(up: Any, down: Any, x: Any) -> Any:
    """Have a part that is sharded by hand."""
    specs = P(None, "model"), P("model"), P("data")
    inside = jax.shard_map(
        lambda up, down, x: jax.lax.psum(jnp.tanh(x @ up) @ down, "model"),
        mesh=MESH,
        in_specs=specs,
        out_specs=P("data"),
    )
    return jnp.sin(inside(up, down, x)) @ up


def explicit(gradient: bool) -> Any:
    """Have types with axes."""

    def put(x: Any, spec: P) -> Any:
        sharding = NamedSharding(EXPLICIT, spec)
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)

    def out(up: Any, down: Any, x: Any) -> Any:
        spec = NamedSharding(EXPLICIT, P("data"))
        hidden = jnp.tanh(x @ up)
        return jnp.einsum("bh,hd->bd", hidden, down, out_sharding=spec)

    def loss(*arrays: Any) -> Any:
        return out(*arrays).sum()

    up, down = put(UP, P(None, "model")), put(DOWN, P("model"))
    rows = put(ROWS, P("data"))
    return jax.grad(loss) if gradient else out, up, down, rows


def routed(x: Any, router: Any, experts: Any) -> Any:
    """Send rows to experts."""
    scores, chosen = jax.lax.top_k(jax.nn.softmax(x @ router), 2)
    to = jax.nn.one_hot(chosen, 8) * scores[..., None]
    return jnp.einsum("td,tke,edf->tf", x, to, experts)


def cached(cache: Any, new: Any, at: Any) -> Any:
    """Write into a cache."""
    return jax.lax.dynamic_update_slice(cache, new, (0, 0, at, 0)).sum(2)


def looped(x: Any, w: Any) -> Any:
    """Have a loop and a branch."""
    x = jax.lax.fori_loop(0, 3, lambda _, x: jnp.tanh(x @ w), x)
    return jax.lax.cond(x.sum() > 0, lambda x: x @ w, lambda x: 2 * x, x)


def sorted_(x: Any) -> Any:
    """Sort, and gather by an order."""
    order = jnp.argsort(x, 1)
    taken = jnp.take_along_axis(x, order, 1)
    return jnp.sort(x, 0), jax.lax.top_k(x, 4), jnp.cumsum(x, 1), taken


def reshaped(x: Any, w: Any) -> Any:
    """Split and join dimensions."""
    parts = (x @ w).reshape(32, 8, 16).transpose(1, 0, 2).sum(-1)
    return parts, jnp.concatenate([jnp.split(x @ w, 2, 1)[0], x], 1)


SQUARE = array((64, 64), P(None, "model"))
PROGRAMS: dict[str, Any] = {
    "an NNX transformer, FSDP and TP": lambda: of_module(
        Transformer, fsdp_and_tensor_parallel, entropy, TOKENS
    ),
    "an NNX transformer, TP": lambda: of_module(
        Transformer, tensor_parallel, entropy, TOKENS
    ),
    "AdamW, donated": adamw,
    "NNX convolutions": lambda: of_module(
        Convolutions, replicated, lambda y, _: (y**2).mean(), IMAGES
    ),
    "Linen, FSDP and TP": lambda: linen(fsdp_and_tensor_parallel),
    "Linen, TP": lambda: linen(tensor_parallel),
    "scan": lambda: layers(remat=False),
    "scan and remat": lambda: layers(remat=True),
    "custom_vjp": lambda: (
        jax.grad(lambda w, x: (twice(x @ w) @ w.T).sum()),
        UP,
        ROWS,
    ),
    "a constraint": lambda: (constrained, UP, DOWN, ROWS),
    "shard_map": lambda: (by_hand, UP, DOWN, ROWS),
    "Explicit axes": lambda: explicit(gradient=False),
    "a gradient on Explicit axes": lambda: explicit(gradient=True),
    "out_shardings": lambda: (
        jax.jit(
            lambda w, x: jnp.tanh(x @ w),
            out_shardings=NamedSharding(MESH, P(None, "data")),
        ),
        UP,
        ROWS,
    ),
    "arguments that disagree": lambda: (
        lambda x, y: (x + y) @ x,
        array((64, 64), P("data")),
        array((64, 64), P("model")),
    ),
    "experts": lambda: (
        routed,
        ROWS,
        array((64, 8), P()),
        array((8, 64, 128), P("model")),
    ),
    "a cache": lambda: (
        cached,
        array((8, 4, 32, 16), P("data", "model")),
        array((8, 4, 1, 16), P("data", "model")),
        jax.ShapeDtypeStruct((), "int32"),
    ),
    "while and cond": lambda: (looped, ROWS, SQUARE),
    "vmap": lambda: (
        jax.vmap(lambda x, w: jnp.tanh(x @ w), (0, None)),
        array((8, 16, 64), P("data")),
        SQUARE,
    ),
    "sorts": lambda: (sorted_, array((32, 64), P("data", "model"))),
    "reshapes": lambda: (reshaped, ROWS, UP),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_value_is_sharded_as_xla_shards_it(name: str) -> None:
    """Of a program, once it is compiled; not of what is in a shard_map."""
    function, *arguments = PROGRAMS[name]()
    if not hasattr(function, "lower"):
        function = jax.jit(function)
    with comparing() as compared:
        function.lower(*arguments).compile()
    assert compared.values
    assert not compared.different
