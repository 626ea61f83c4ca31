"""Inputs of calls that three problems or more have."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P


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
        An array on the first device, uncommitted.
    """
    x: jax.Array = jax.device_put(numpy_normal(*shape, seed=seed))
    return x


def numpy_normal(*shape: int, seed: int = 0) -> Any:
    """Return the numbers of :func:`normal`, of NumPy."""
    return np.float32(np.random.default_rng(seed).normal(size=shape))


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
"""Specs by the path of an array.

They are for the models of :func:`~shardbook.inputs.mlp` and
:func:`~shardbook.inputs.vision`.
An array has the spec of the first rule whose expression matches its whole
path: output channels, heads and hidden units over ``"model"``, the rest
replicated.

:meta hide-value:
"""


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
    return jax.device_put(jax.tree.map(_on_host, tree), shardings)


def _on_host(array: Any) -> Any:
    """Give what is on one device as NumPy's.

    jax would compile how it is cut into shards, for each shape.
    """
    if isinstance(array, jax.core.Tracer) or not isinstance(
        array, jax.Array
    ):
        return array
    is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
    if is_key or len(array.sharding.device_set) > 1:
        return array
    return np.asarray(array)


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
        "x": numpy_normal(size, in_dim, seed=5),
        "y": numpy_normal(size, out_dim, seed=6),
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
