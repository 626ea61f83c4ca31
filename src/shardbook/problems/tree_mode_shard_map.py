"""Run a Module's code on each device's slice, and bring its state back."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import AxisType, PartitionSpec as P


class TPLinear(nnx.Module):
    """A Linear that keeps books. ``step`` is written for one device.

    Args:
        in_dim: Inputs.
        features: Outputs, of all devices together.
        rngs: Source of the parameters.
    """

    def __init__(
        self, in_dim: int, features: int, *, rngs: nnx.Rngs
    ) -> None:
        self.linear = nnx.Linear(in_dim, features, rngs=rngs)
        self.calls = nnx.BatchStat(jnp.zeros(()))
        self.cols = nnx.BatchStat(jnp.zeros(()))
        self.colsum = nnx.BatchStat(jnp.zeros((features,)))
        self.n_python = 0

    def step(self, x: jax.Array) -> jax.Array:
        """Compute this device's columns of the output, and keep books.

        Args:
            x: Input, ``(batch, in_dim)``, the same on each device.

        Returns:
            The columns that this device's slice of the kernel gives,
            float32 ``(batch, columns)``.
        """
        y = self.linear(x)
        columns = jnp.float32(self.linear.kernel.shape[1])
        self.calls[...] += 1.0
        self.cols[...] = jax.lax.psum(columns, "model")
        self.colsum[...] += y.sum(axis=0)
        # Not a write to a Variable: tree mode drops these two.
        self.n_python += 1
        self.last = nnx.BatchStat(y)
        return y


def _whole(name: str, value: float, low: int, high: float) -> int:
    """Return ``value`` as an int if it is whole and in [low, high)."""
    number = value
    # A key and an abstract array have no axes either, but no value.
    if hasattr(value, "__float__") and getattr(value, "shape", None) == ():
        number = value.item()
    wanted = f"{name} must be a whole number in [{low}, {high})"
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError(f"{wanted}, got {value!r}")
    if not low <= number < high or number != int(number):
        raise ValueError(f"{wanted}, got {value!r}")
    return int(number)


def _real(name: str, value: jax.Array, ndim: int) -> jax.Array:
    """Return ``value`` as float32 if it has ``ndim`` axes, none empty."""
    wanted = f"{name} must be a non-empty {ndim}-D array of real numbers"
    kinds = (jnp.floating, jnp.integer, jnp.bool_)
    if not isinstance(value, jax.Array | np.ndarray) or not any(
        jnp.issubdtype(value.dtype, kind) for kind in kinds
    ):
        raise TypeError(f"{wanted}, got {value!r}")
    if value.ndim != ndim or value.size == 0:
        raise ValueError(f"{wanted}, got shape {value.shape}")
    return jnp.asarray(value, jnp.float32)


def tree_mode_shard_map(
    seed: float, x: jax.Array, features: float
) -> jax.Array:
    """Return what comes back from two sharded steps of a TPLinear.

    A :class:`TPLinear` of ``x.shape[-1]`` inputs and ``features`` outputs
    steps twice on ``x`` under ``nnx.shard_map(graph=False)``. The columns
    of kernel, bias and ``colsum`` are split over the mesh axis
    ``"model"``, which has as many devices as can share them evenly.

    Args:
        seed: Seed of the parameters, a whole number in ``[0, 2**32)``.
        x: Input, ``(batch, in_dim)``, replicated: ``P()``.
        features: Outputs of the layer, a whole number of at least 1.

    Returns:
        A float32 array, ``(7,)``, with the sum of the second step's output
        ``y``, which is laid out as ``P(None, "model")``; ``y[0, -1]``; the
        sum of ``colsum``; ``calls``; ``cols``; ``n_python``; and whether
        the model has ``last`` now. The last four are 2, ``features``, 0
        and 0.

    Raises:
        TypeError: If ``seed`` or ``features`` is no number, or ``x`` is no
            array of real numbers.
        ValueError: If ``seed`` or ``features`` is not whole or out of
            range, or ``x`` has the wrong rank or an empty axis.

    References:
        Flax, pull request 5238, https://github.com/google/flax/pull/5238
    """
    seed = _whole("seed", seed, 0, 2**32)
    x = _real("x", x, 2)
    features = _whole("features", features, 1, math.inf)
    # --- solution ---
    devices = jax.devices()[: math.gcd(features, jax.device_count())]
    mesh = jax.make_mesh(
        (len(devices),), ("model",), (AxisType.Auto,), devices=devices
    )
    model = TPLinear(x.shape[-1], features, rngs=nnx.Rngs(seed))
    specs = jax.tree_util.tree_map_with_path(
        pick_spec,
        model,
        is_leaf=lambda node: isinstance(node, nnx.Variable),
    )
    step = nnx.shard_map(
        TPLinear.step,
        mesh=mesh,
        in_specs=(specs, P()),
        out_specs=P(None, "model"),
        graph=False,
    )
    step = nnx.jit(step, graph=False)
    step(model, x)
    y = step(model, x)  # float32[batch,features@model]
    came_back = (
        y.sum(),
        y[0, -1],
        model.colsum[...].sum(),
        model.calls[...],
        model.cols[...],
        model.n_python,
        hasattr(model, "last"),
    )
    return jnp.array([float(value) for value in came_back], jnp.float32)


def pick_spec(
    path: tuple[jax.tree_util.KeyEntry, ...], variable: nnx.Variable
) -> P:
    """Return the spec of one of TPLinear's Variables.

    Args:
        path: Where the Variable is in the Module, as
            :func:`jax.tree_util.tree_map_with_path` gives it.
        variable: The Variable; where it is decides, not what it holds.

    Returns:
        ``P(None, "model")`` for the kernel, ``P("model")`` for what has
        one entry for each column, and ``P()``, a copy on each device, for
        the rest.
    """
    specs = {
        ".linear.kernel": P(None, "model"),
        ".linear.bias": P("model"),
        ".colsum": P("model"),
    }
    return specs.get(jax.tree_util.keystr(path), P())
