"""The inputs of graded calls, so that a call in a verdict runs when pasted.

A verdict prints the call that was graded, such as
``megatron_mlp(mlp_params(16, 40, 24), normal(8, 16), mesh_of(2, 4))``, with
the line that imports these names.
"""

import atexit
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn, nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

__all__ = [
    "FSDP_SPECS",
    "GRADIENT_SPECS",
    "LM_RULES",
    "OVERLAPPING",
    "RULES",
    "SCALED_SPECS",
    "STACKED_SPECS",
    "P",
    "adafactor",
    "adam",
    "assorted",
    "backwards",
    "checkpoint",
    "clipped_adamw",
    "committed",
    "counted_mlp",
    "counting",
    "dense",
    "dropout_mlp",
    "examples",
    "except_last",
    "from_shapes",
    "gradients",
    "in_jit",
    "in_shard_map",
    "labels",
    "laid_out",
    "language_model",
    "linear",
    "mesh_of",
    "mlp",
    "mlp_params",
    "momentum",
    "named",
    "new_zeros",
    "next_token_loss",
    "normal",
    "normed",
    "numpy_batch",
    "numpy_examples",
    "numpy_rows",
    "optimizer_on",
    "placed",
    "random_key",
    "residual_block",
    "residual_error",
    "residual_mlp",
    "rows_of_process",
    "scaled_error",
    "spread",
    "squared_error",
    "stacked_params",
    "tokens",
    "too_large",
    "train",
    "truncated",
    "twice",
    "vision",
    "with_nan",
]


def mesh_of(*sizes: int, names: Sequence[str] = ("data", "model")) -> Mesh:
    """Return a mesh of Auto axes, usually ``"data"`` and ``"model"``.

    Args:
        *sizes: How many devices there are along each axis.
        names: The axes.

    Returns:
        A mesh of the first of all devices, as many as it needs.

    Raises:
        ValueError: If there are fewer devices.
    """
    needed, found = math.prod(sizes), jax.device_count()
    if needed > found:
        raise ValueError(
            f"mesh_of{sizes} needs {needed} devices, and there are "
            f"{found}. Before JAX is used, run "
            f'jax.config.update("jax_num_cpu_devices", {needed}).'
        )
    return jax.make_mesh(
        sizes,
        tuple(names),
        (AxisType.Auto,) * len(sizes),
        devices=jax.devices()[:needed],
    )


def normal(*shape: int, seed: int = 0) -> jax.Array:
    """Return float32 numbers from a standard normal distribution.

    Args:
        *shape: The shape of the array.
        seed: The seed of the numbers.

    Returns:
        An array on the first device, uncommitted, unless a mesh is set.
    """
    values = np.random.default_rng(seed).normal(size=shape)
    return jnp.asarray(values, jnp.float32)


def committed(tree: Any) -> Any:
    """Return the arrays of a tree, committed to the last device."""
    return jax.device_put(tree, jax.devices()[-1])


def with_nan(x: jax.Array) -> jax.Array:
    """Return an array of floats with NaN as its last entry."""
    return x.at[(-1,) * x.ndim].set(jnp.nan)


def mlp_params(
    in_dim: int, hidden: int, out_dim: int
) -> dict[str, dict[str, jax.Array]]:
    """Return the parameters of two dense layers, ``"up"`` and ``"down"``.

    Args:
        in_dim: Inputs of ``"up"``.
        hidden: Outputs of ``"up"``, and inputs of ``"down"``.
        out_dim: Outputs of ``"down"``.

    Returns:
        For each layer a float32 ``"kernel"``, ``(inputs, outputs)``, and
        ``"bias"``, ``(outputs,)``, where :func:`normal` makes them.
    """
    return {
        "up": {
            "kernel": normal(in_dim, hidden, seed=1),
            "bias": normal(hidden, seed=2),
        },
        "down": {
            "kernel": normal(hidden, out_dim, seed=3),
            "bias": normal(out_dim, seed=4),
        },
    }


def numpy_batch(size: int, *shape: int, seed: int = 0) -> dict[str, Any]:
    """Return a batch as a data loader gives it, in the host's memory.

    Args:
        size: The number of examples.
        *shape: The shape of an example.
        seed: The seed of the numbers.

    Returns:
        A dict of NumPy arrays. ``"x"`` is float32 ``(size, *shape)``, and
        ``"y"`` int32 ``(size,)``, with numbers from 0 to 3.
    """
    rng = np.random.default_rng(seed)
    return {
        "x": rng.normal(size=(size, *shape)).astype(np.float32),
        "y": rng.integers(4, size=size, dtype=np.int32),
    }


def labels(tokens: int, words: int, *, left_out: int) -> jax.Array:
    """Return a label for each token, and -1 for the first tokens.

    Args:
        tokens: The number of tokens.
        words: The number of words; the labels are below it.
        left_out: How many tokens have the label -1.

    Returns:
        int32 ``(tokens,)``, where :func:`normal` makes it. Among the last
        labels are the first and the last word.
    """
    found = np.random.default_rng(0).integers(words, size=tokens)
    found[-2:] = 0, words - 1
    found[:left_out] = -1
    return jnp.asarray(found, jnp.int32)


class MLP(nnx.Module):
    """Two linear layers, ``up`` and ``down``, and a GELU between them."""

    def __init__(
        self, in_dim: int, hidden: int, out_dim: int, *, rngs: nnx.Rngs
    ) -> None:
        self.up = nnx.Linear(in_dim, hidden, rngs=rngs)
        self.down = nnx.Linear(hidden, out_dim, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return ``(..., out_dim)`` for an x of ``(..., in_dim)``."""
        output: jax.Array = self.down(jax.nn.gelu(self.up(x)))
        return output


class Vision(nnx.Module):
    """A convolution, attention, an MLP and a Dropout."""

    def __init__(self, dim: int, heads: int, *, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(3, dim, (4, 4), strides=4, rngs=rngs)
        self.norm = nnx.BatchNorm(dim, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(
            heads, dim, decode=False, rngs=rngs
        )
        self.layers = nnx.List([MLP(dim, 4 * dim, dim, rngs=rngs)])
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.head = nnx.Linear(dim, 4, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return ``(batch, 4)`` for images ``(batch, side, side, 3)``."""
        patches = self.norm(self.conv(x))
        tokens = patches.reshape(len(x), -1, patches.shape[-1])
        tokens += self.attention(tokens)
        for layer in self.layers:
            tokens += layer(tokens)
        output: jax.Array = self.head(self.dropout(tokens).mean(axis=1))
        return output


def mlp(
    in_dim: int, hidden: int, out_dim: int, seed: int = 0
) -> nnx.Module:
    """Return a Module of two layers, ``up`` and ``down``.

    Args:
        in_dim: Inputs of ``up``.
        hidden: Outputs of ``up``, and inputs of ``down``.
        out_dim: Outputs of ``down``.
        seed: The seed of the parameters.

    Returns:
        An MLP with a GELU between its layers, and float32 arrays
        ``up.kernel``, ``up.bias``, ``down.kernel`` and ``down.bias``.
    """
    return MLP(in_dim, hidden, out_dim, rngs=nnx.Rngs(seed))


def vision(dim: int, heads: int) -> nnx.Module:
    """Return a Module with many kinds of arrays.

    Args:
        dim: Channels of the convolution and of all that follows.
        heads: Heads of the attention; must divide ``dim``.

    Returns:
        A classifier of images, ``(batch, side, side, 3)``, that has a
        convolution ``conv``, a BatchNorm ``norm``, ``attention``, an MLP
        ``layers.0`` that is ``4 * dim`` wide, a Dropout ``dropout`` with
        a random key and a count, and a Linear ``head``.
    """
    return Vision(dim, heads, rngs=nnx.Rngs(0))


def named(**models: nnx.Module) -> nnx.Module:
    """Return a Module that has models under these names."""
    return nnx.Dict(models)


def twice(model: nnx.Module) -> nnx.Module:
    """Return a Module that has one model as its 0 and as its 1."""
    return nnx.List([model, model])


RULES = (
    (r"conv\.kernel", P(None, None, None, "model")),
    (r"conv\.bias", P("model")),
    (r"attention\.(query|key|value)\.kernel", P(None, "model", None)),
    (r"attention\.(query|key|value)\.bias", P("model", None)),
    (r"attention\.out\.kernel", P("model", None, None)),
    (r"(.*\.)?up\.kernel", P(None, "model")),
    (r"(.*\.)?up\.bias", P("model")),
    (r"(.*\.)?down\.kernel", P("model", None)),
    (r".*", P()),
)
"""Specs for the arrays of :func:`mlp` and :func:`vision`, by their paths.

An array has the spec of the first rule whose expression matches its whole
path: output channels, heads and hidden units over ``"model"``, the rest
replicated.

:meta hide-value:
"""


OVERLAPPING = (
    # These two match no whole path.
    ("up", P("data")),
    ("UP.*", P("data")),
    (r"(.*\.)?up\.bias", P()),
    (r"(.*\.)?up\.bias", P("model")),
    (".*kernel", P()),
    *RULES,
)
"""Overlapping rules, so that it matters that the first match counts.

The first two match no array of :func:`mlp`, since a pattern has to match
the whole path. Two have the same pattern, and a later one is longer.

:meta hide-value:
"""


def placed(
    model: nnx.Module, mesh: Mesh, dtype: str = "float32"
) -> nnx.Module:
    """Return a model, laid out by :data:`RULES`, with floats of a dtype.

    Args:
        model: The model, which is changed: its Variables get new arrays.
        mesh: Mesh with the axes ``"data"`` and ``"model"``.
        dtype: The dtype of all floating-point arrays.

    Returns:
        The same model.
    """
    for keys, variable in nnx.to_flat_state(nnx.state(model)):
        path = ".".join(map(str, keys))
        spec = next(
            spec for rule, spec in RULES if re.fullmatch(rule, path)
        )
        array = variable.get_value()
        if jnp.issubdtype(array.dtype, jnp.floating):
            array = array.astype(dtype)
        variable.set_value(laid_out(array, spec, mesh))
    return model


def new_zeros(array: jax.Array) -> jax.Array:
    """Return new float32 zeros, of which only the shape is the array's."""
    return jnp.zeros(array.shape)


def backwards(mesh: Mesh) -> Mesh:
    """Return a mesh of the same devices, from the last to the first."""
    devices = np.flip(mesh.devices)
    return Mesh(devices, mesh.axis_names, axis_types=mesh.axis_types)


class CountedMLP(MLP):
    """An MLP that counts its calls, in ``calls``, which is no parameter."""

    def __init__(self, size: int, seed: int) -> None:
        super().__init__(size, size, size, rngs=nnx.Rngs(seed))
        self.calls = nnx.Variable(jnp.zeros((), jnp.int32))

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return ``(..., size)`` for an x of that shape."""
        self.calls[...] += 1
        return super().__call__(x)


def counted_mlp(
    mesh: Mesh, *, sharded: bool = False, seed: int = 0
) -> nnx.Module:
    """Return a Module of two layers that counts its calls, on a mesh.

    Args:
        mesh: Mesh with the axes ``"data"`` and ``"model"``.
        sharded: Whether the kernel of ``up`` is sharded by columns over
            ``"model"``, that of ``down`` by rows, and the bias of ``down``
            over ``"data"``. All else is replicated.
        seed: The seed of the parameters.

    Returns:
        An MLP of :func:`mlp` with 16 inputs, hidden units and outputs, and
        ``calls``, an int32 count that is no parameter.
    """
    model = CountedMLP(16, seed)
    specs = {
        "up.kernel": P(None, "model"),
        "down.kernel": P("model"),
        "down.bias": P("data"),
    }

    def place(path: Any, leaf: jax.Array) -> Any:
        name = ".".join(str(key.name) for key in path[:2])
        spec = specs.get(name, P()) if sharded else P()
        return laid_out(leaf, spec, mesh)

    placed: CountedMLP = jax.tree.map_with_path(place, model)
    return placed


@cache
def adam() -> Any:
    """Return optax's Adam, the same each time: two moments, one count."""
    return optax.adam(1e-2)


@cache
def momentum() -> Any:
    """Return optax's SGD, the same each time: one moment, no count."""
    return optax.sgd(0.1, momentum=0.9)


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


def adafactor() -> Any:
    """Return optax's Adafactor.

    For a kernel it keeps two vectors, one for its rows and one for its
    columns, and for a bias an array of its shape.
    """
    return optax.adafactor(1e-2, min_dim_size_to_factor=8)


def from_shapes() -> Any:
    """Return SGD with momentum, written without ``zeros_like``.

    Its moment starts as ``jnp.zeros(p.shape, p.dtype)``.
    """

    def init(params: Any) -> Any:
        return jax.tree.map(lambda p: jnp.zeros(p.shape, p.dtype), params)

    def update(grads: Any, state: Any, params: Any = None) -> Any:
        del params
        state = jax.tree.map(lambda g, s: g + 0.9 * s, grads, state)
        return jax.tree.map(lambda s: -0.1 * s, state), state

    return optax.GradientTransformation(init, update)


def dropout_mlp(
    in_dim: int, hidden: int, out_dim: int, seed: int = 0
) -> nnx.Module:
    """Return the Module of :func:`mlp`, followed by a Dropout.

    Args:
        in_dim: Inputs of ``up``.
        hidden: Outputs of ``up``, and inputs of ``down``.
        out_dim: Outputs of ``down``.
        seed: The seed of the parameters and of the Dropout.

    Returns:
        A Sequential with ``layers.0.up.kernel`` and the other parameters,
        a random key, ``layers.1.rngs.key``, and a count,
        ``layers.1.rngs.count``.
    """
    dropout = nnx.Dropout(0.1, rngs=nnx.Rngs(seed))
    return nnx.Sequential(mlp(in_dim, hidden, out_dim, seed), dropout)


def linear(in_dim: int, out_dim: int) -> nnx.Module:
    """Return a Linear without a bias: a Module with one array.

    Args:
        in_dim: Its inputs.
        out_dim: Its outputs.

    Returns:
        A Linear with a float32 ``kernel``, ``(in_dim, out_dim)``.
    """
    rngs = nnx.Rngs(0)
    return nnx.Linear(in_dim, out_dim, use_bias=False, rngs=rngs)


def too_large(
    make: Callable[..., nnx.Module], *arguments: int
) -> Callable[..., nnx.Module]:
    """Return a function that builds a model, but not on one device.

    Args:
        make: Makes the model, such as :func:`mlp`.
        *arguments: Its arguments.

    Returns:
        A function without arguments, or with those that ``make`` takes
        after the others. It raises a ``RuntimeError`` unless it is traced,
        as by ``jax.jit`` or ``jax.eval_shape``.
    """

    def build(*more: Any) -> nnx.Module:
        if not isinstance(jnp.zeros(()), jax.core.Tracer):
            raise RuntimeError(
                "this model is too large for one device: call build under "
                "jax.jit or nnx.eval_shape"
            )
        return make(*arguments, *more)

    return build


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
"""Specs for :func:`language_model`: FSDP and tensor parallelism together.

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


@cache
def checkpoint(make: Callable[..., nnx.Module], *arguments: int) -> str:
    """Save a model from a mesh of all devices, and return the path.

    The mesh is 2 by 4 on eight devices. Where all of them divide the last
    axis of an array, it is sharded over both axes of the mesh, and other
    arrays are replicated. Orbax's ``StandardCheckpointer`` saves the whole
    state, as a ``State``.

    Args:
        make: Makes the model, such as :func:`mlp`.
        *arguments: Its arguments.

    Returns:
        The absolute path of the checkpoint, in a temporary folder that is
        removed at the end of the program.
    """
    # It takes a second to import, and most calls do not need it.
    import orbax.checkpoint as ocp

    count = jax.device_count()
    mesh = mesh_of(2, count // 2) if count > 1 else mesh_of(1, 1)

    def shard(leaf: jax.Array) -> NamedSharding:
        spec = P(*[None] * (leaf.ndim - 1), ("data", "model"))
        divides = leaf.ndim > 0 and leaf.shape[-1] % mesh.size == 0
        return NamedSharding(mesh, spec if divides else P())

    state = nnx.state(make(*arguments))
    path = os.path.join(_temporary_folder(), "model")
    with ocp.StandardCheckpointer() as saver:
        saver.save(path, jax.device_put(state, jax.tree.map(shard, state)))
    return path


def truncated(path: str) -> str:
    """Return the path of a copy of a checkpoint that is damaged.

    Args:
        path: The path of a checkpoint.

    Returns:
        The path of a copy, each file of which lacks its second half.
    """
    copy = os.path.join(_temporary_folder(), "model")
    shutil.copytree(path, copy)
    for folder, _, files in os.walk(copy):
        for name in files:
            file = os.path.join(folder, name)
            os.truncate(file, os.path.getsize(file) // 2)
    return copy


def _temporary_folder() -> str:
    folder = tempfile.mkdtemp(prefix="shardbook-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def laid_out(tree: Any, specs: Any, mesh: Mesh) -> Any:
    """Return the arrays of a tree on a mesh.

    Args:
        tree: The arrays.
        specs: One spec for all of them, or a tree with a spec for each.
        mesh: The mesh.

    Returns:
        The same arrays, committed to the devices of the mesh.
    """
    shardings = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)
    return jax.device_put(tree, shardings)


def numpy_examples(size: int, in_dim: int, out_dim: int) -> dict[str, Any]:
    """Return a batch of inputs and targets, in the host's memory.

    Args:
        size: The number of examples.
        in_dim: Numbers in an input.
        out_dim: Numbers in a target.

    Returns:
        Float32 ``"x"``, ``(size, in_dim)``, and ``"y"``,
        ``(size, out_dim)``, of NumPy.
    """
    return {
        "x": np.asarray(normal(size, in_dim, seed=5)),
        "y": np.asarray(normal(size, out_dim, seed=6)),
    }


def examples(
    size: int, in_dim: int, out_dim: int, mesh: Mesh
) -> dict[str, jax.Array]:
    """Return the batch of :func:`numpy_examples`, sharded over ``"data"``.

    Args:
        size: The number of examples.
        in_dim: Numbers in an input.
        out_dim: Numbers in a target.
        mesh: Mesh with an axis ``"data"``, whose size divides ``size``.

    Returns:
        Float32 ``"x"``, ``(size, in_dim)``, and ``"y"``,
        ``(size, out_dim)``, both laid out as ``P("data")``.
    """
    batch = numpy_examples(size, in_dim, out_dim)
    placed: dict[str, jax.Array] = laid_out(batch, P("data"), mesh)
    return placed


def squared_error(
    params: dict[str, dict[str, jax.Array]], batch: dict[str, jax.Array]
) -> jax.Array:
    """Return the mean squared error of an MLP on a batch.

    Args:
        params: What :func:`mlp_params` gives.
        batch: What :func:`examples` gives.

    Returns:
        The mean over the examples, and over the numbers of a target, as
        a float32 scalar.
    """
    up, down = params["up"], params["down"]
    hidden = jax.nn.gelu(batch["x"] @ up["kernel"] + up["bias"])
    output = hidden @ down["kernel"] + down["bias"]
    return ((output - batch["y"]) ** 2).mean()


FSDP_SPECS = {
    "up": {"kernel": P(None, "data"), "bias": P("data")},
    "down": {"kernel": P("data"), "bias": P()},
}
"""Specs for the parameters of :func:`squared_error`.

All are sharded over ``"data"``, except for the bias of ``"down"``.

:meta hide-value:
"""


def scaled_error(
    params: list[jax.Array], batch: tuple[jax.Array, jax.Array]
) -> jax.Array:
    """Return the mean squared error of a kernel and a scale on a batch.

    Args:
        params: A kernel, ``(in_dim, out_dim)``, and a scalar.
        batch: Inputs, ``(size, in_dim)``, and targets,
            ``(size, out_dim)``.

    Returns:
        The mean over the examples, and over the numbers of a target, as
        a float32 scalar.
    """
    (kernel, scale), (x, y) = params, batch
    return ((scale * x @ kernel - y) ** 2).mean()


SCALED_SPECS = [P("data", None), P()]
"""Specs for the parameters of :func:`scaled_error`.

:meta hide-value:
"""


def stacked_params(layers: int, dim: int, hidden: int) -> dict[str, Any]:
    """Return the parameters of :func:`residual_block`, for many layers.

    Args:
        layers: How many layers.
        dim: Inputs and outputs of a layer.
        hidden: Its hidden units.

    Returns:
        Float32 arrays. They are ``"up"`` and ``"down"``, each with a
        ``"kernel"``, ``(layers, dim, hidden)`` and
        ``(layers, hidden, dim)``, and a ``"bias"``, ``(layers, hidden)``
        and ``(layers, dim)``; and ``"scale"``, ``(layers, dim)``.
    """
    return {
        "scale": 1 + normal(layers, dim, seed=5) / 8,
        "up": {
            "kernel": normal(layers, dim, hidden, seed=1) / dim**0.5,
            "bias": normal(layers, hidden, seed=2),
        },
        "down": {
            "kernel": normal(layers, hidden, dim, seed=3) / hidden**0.5 / 4,
            "bias": normal(layers, dim, seed=4) / layers,
        },
    }


STACKED_SPECS = {
    "scale": P(),
    "up": {"kernel": P(None, None, "data"), "bias": P(None, "data")},
    "down": {"kernel": P(None, "data"), "bias": P()},
}
"""Specs for :func:`stacked_params`: the hidden units over ``"data"``.

The other arrays are replicated.

:meta hide-value:
"""


def residual_block(params: dict[str, Any], x: jax.Array) -> jax.Array:
    """Return ``x`` plus what a scaled MLP makes of it.

    Args:
        params: The parameters of one layer: :func:`stacked_params` without
            the dimension for the layers.
        x: Float32 ``(batch, dim)``.

    Returns:
        Float32 ``(batch, dim)``, each row computed from that row of ``x``.
    """
    up, down = params["up"], params["down"]
    hidden = jax.nn.gelu((x * params["scale"]) @ up["kernel"] + up["bias"])
    output: jax.Array = x + hidden @ down["kernel"] + down["bias"]
    return output


GRADIENT_SPECS = {
    "embed": P(("data", "model")),
    "up": P("data", "model"),
    "down": P("model", None),
    "bias": P(None, "data"),
    "norm": P(),
    "scale": P(),
}
"""Specs for :func:`gradients`: over both axes, one of them, or none.

:meta hide-value:
"""


def gradients(size: float, dtype: str = "float32") -> dict[str, Any]:
    """Return a tree of gradients of six arrays.

    Args:
        size: A factor of the numbers, which without it have a standard
            normal distribution.
        dtype: The dtype of ``"embed"``, ``"up"`` and ``"down"``.

    Returns:
        ``"embed"`` and ``"down"``, ``(32, 8)``, ``"up"``, ``(8, 32)``,
        and in float32 ``"bias"``, ``(1, 32)``, ``"norm"``, ``(40,)``, and
        the scalar ``"scale"``: uncommitted arrays on the first device.
    """
    shapes = {
        "embed": (32, 8),
        "up": (8, 32),
        "down": (32, 8),
        "bias": (1, 32),
        "norm": (40,),
        "scale": (),
    }
    tree = {
        name: size * normal(*shape, seed=seed)
        for seed, (name, shape) in enumerate(shapes.items())
    }
    large = {name: tree[name].astype(dtype) for name in [*shapes][:3]}
    return tree | large


def in_jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another one inside ``jax.jit``.

    Args:
        function: Called once in each call, while it is traced, with
            tracers for arrays, and with anything else as it is given.

    Returns:
        A function of the same arguments.
    """

    def call(*given: Any) -> Any:
        leaves, tree = jax.tree.flatten(given)
        arrays = {
            i: x for i, x in enumerate(leaves) if isinstance(x, jax.Array)
        }

        @jax.jit
        def inside(traced: dict[int, jax.Array]) -> Any:
            mixed = [traced.get(i, leaf) for i, leaf in enumerate(leaves)]
            return function(*jax.tree.unflatten(tree, mixed))

        return inside(arrays)

    return call


def in_shard_map(
    function: Callable[..., Any], specs: Any, mesh: Mesh, *more: Any
) -> Callable[[Any], Any]:
    """Return a function that runs another one on shards, on each device.

    Args:
        function: Called once while it is traced, inside ``jax.shard_map``:
            ``function(shards, specs, *more, mesh.axis_names)``.
        specs: A spec for each array, before and after.
        mesh: Mesh with the axes that the specs name.
        *more: Further arguments of the function.

    Returns:
        A compiled function of a tree of whole arrays like ``specs``, on
        any devices, that returns what the shards of all devices make.
    """

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=(specs,), out_specs=specs)
    def on_shards(shards: Any) -> Any:
        return function(shards, specs, *more, mesh.axis_names)

    return lambda tree: on_shards(laid_out(tree, specs, mesh))


def optimizer_on(
    mesh: Mesh, tx: Any, *, sharded: bool = False
) -> nnx.Optimizer[nnx.Module]:
    """Return an optimizer for :func:`counted_mlp`, laid out on a mesh.

    Args:
        mesh: Mesh with the axes ``"data"`` and ``"model"``.
        tx: A gradient transformation of optax, such as :func:`adam`.
        sharded: Whether the rows of the moments are sharded over
            ``"data"``. All else is replicated.

    Returns:
        The optimizer, as it is before its first step.
    """
    optimizer = nnx.Optimizer(counted_mlp(mesh), tx, wrt=nnx.Param)

    def place(leaf: jax.Array) -> Any:
        spec = P("data") if sharded and leaf.ndim else P()
        return laid_out(leaf, spec, mesh)

    placed: nnx.Optimizer[nnx.Module] = jax.tree.map(place, optimizer)
    return placed


class Bias(nnx.Param):  # type: ignore[type-arg]
    """A Param of a class of its own."""


class Assorted(nnx.Module):
    """Weights of two dtypes, one of them tied, and other Variables."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Embed(16, 32, rngs=rngs)
        self.up = nnx.Linear(32, 16, param_dtype=jnp.bfloat16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.head = nnx.Dict(
            kernel=self.embed.embedding, bias=Bias(jnp.ones(32))
        )
        self.codes = nnx.Param(jnp.arange(8, dtype=jnp.int8))


def assorted(mesh: Mesh) -> nnx.Module:
    """Return a Module with Variables of many kinds, on a mesh.

    Args:
        mesh: Mesh with the axes ``"data"`` and ``"model"``.

    Returns:
        A Module with the bfloat16 weights ``up.kernel`` and ``up.bias``,
        and others in float32, of which ``head.kernel`` is the Variable
        ``embed.embedding``, and ``head.bias`` is of a subclass of
        ``nnx.Param``. Besides, it has an int8 ``nnx.Param``, the
        statistics of a BatchNorm, and the key and the count of a Dropout.
        Two weights are sharded over ``"model"``, one over ``"data"``, one
        over both, and all else is replicated.
    """
    specs = {
        "embed.embedding": P("data", "model"),
        "up.kernel": P(None, "model"),
        "up.bias": P("data"),
        "head.bias": P("model"),
    }
    model = Assorted(rngs=nnx.Rngs(0))

    def place(path: Any, leaf: jax.Array) -> Any:
        name = jax.tree_util.keystr(path[:2], simple=True, separator=".")
        return laid_out(leaf, specs.get(name, P()), mesh)

    nnx.update(model, jax.tree.map_with_path(place, nnx.state(model)))
    return model


def train(model: nnx.Module) -> None:
    """Give a model other floats, as a step does that donates the model.

    Args:
        model: The model, whose arrays keep their shardings. Each floating
            point number ``x`` becomes ``3 - x / 2``.
    """
    nnx.update(model, _train(nnx.state(model)))


@jax.jit(donate_argnums=0)
def _train(state: Any) -> Any:
    return jax.tree.map(
        lambda x: 3 - x / 2 if jnp.issubdtype(x.dtype, jnp.floating) else x,
        state,
    )


def counting(rows: int, length: int, words: int, seed: int) -> Any:
    """Return rows of tokens that count up by 1, 2 or 3.

    Args:
        rows: The number of rows.
        length: The tokens in a row.
        words: The number of different tokens, where counting begins again.
        seed: The seed of where a row begins, and by how much it counts.

    Returns:
        int32 ``(rows, length)``, of NumPy.
    """
    rng = np.random.default_rng(seed)
    first = rng.integers(words, size=(rows, 1))
    more = rng.integers(1, 4, size=(rows, 1)) * np.arange(length)
    return ((first + more) % words).astype(np.int32)


def random_key(seed: int) -> jax.Array:
    """Return ``jax.random.key(seed)``."""
    return jax.random.key(seed)


def dense(
    features: int,
    kernel: tuple[Any, ...] | None = None,
    bias: tuple[Any, ...] | None = None,
    *,
    logical: bool = False,
) -> nn.Dense:
    """Return a Dense of Linen whose parameters may be in boxes.

    Args:
        features: Its outputs.
        kernel: The names in the box of its kernel, one for each dimension.
            Without names the kernel has no box.
        bias: The names in the box of its bias, in the same way.
        logical: Whether the boxes are ``nn.LogicallyPartitioned``, whose
            names are logical, and not ``nn.Partitioned``.

    Returns:
        A layer with flax's usual initializers, ``lecun_normal`` for the
        kernel and zeros for the bias.
    """
    wrap = nn.with_logical_partitioning if logical else nn.with_partitioning

    def boxed(init: Any, names: tuple[Any, ...] | None) -> Any:
        return wrap(init, names) if names else init

    return nn.Dense(
        features,
        kernel_init=boxed(nn.initializers.lecun_normal(), kernel),
        bias_init=boxed(nn.initializers.zeros_init(), bias),
    )


def normed(*layers: nn.Module) -> nn.Module:
    """Return layers of Linen in a row, and a BatchNorm after the last.

    Args:
        *layers: The layers.

    Returns:
        A Sequential. The BatchNorm has parameters, ``scale`` and ``bias``,
        and batch statistics, ``mean`` and ``var``, all without boxes.
    """
    return nn.Sequential([*layers, nn.BatchNorm(use_running_average=True)])


def numpy_rows(
    size: int, *shape: int, dtype: str = "float32", seed: int = 0
) -> np.ndarray:
    """Return rows in NumPy, the same in all processes.

    Args:
        size: How many rows.
        *shape: The shape of a row.
        dtype: Their dtype.
        seed: The seed of the random numbers.

    Returns:
        An array ``(size, *shape)`` of numbers from -100 to 100.
    """
    random = np.random.default_rng(seed)
    rows = random.uniform(-100, 100, (size, *shape))
    return rows.astype(jnp.dtype(dtype))


def rows_of_process(rows: np.ndarray, mesh: Mesh) -> np.ndarray:
    """Return the rows of a global batch that this process reads.

    Args:
        rows: The global batch, ``(size, ...)``.
        mesh: The mesh of all processes.

    Returns:
        The rows of this process's devices along ``"data"``.
    """
    here = NamedSharding(mesh, P("data")).addressable_devices_indices_map(
        rows.shape
    )
    parts = [part[0].indices(len(rows)) for part in here.values() if part]
    starts, stops, _ = zip(*parts, strict=True)
    return rows[min(starts) : max(stops)]


def except_last(usual: Any, last: Any) -> Any:
    """Return the first in all processes but the last, and there the other.

    Args:
        usual: What the first processes get.
        last: What the last process gets, if there are several.
    """
    index, count = jax.process_index(), jax.process_count()
    return last if 0 < index == count - 1 else usual


def spread(rows: np.ndarray, spec: P, mesh: Mesh) -> jax.Array:
    """Return an array that is sharded over the devices of all processes.

    Args:
        rows: The whole array, which each process has.
        spec: How the result is sharded.
        mesh: The mesh of all processes.
    """
    sharding = NamedSharding(mesh, spec)
    return jax.make_array_from_callback(
        rows.shape, sharding, lambda index: rows[index]
    )
