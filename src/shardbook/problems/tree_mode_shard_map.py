"""Run a Module on each device's shards, and keep what it writes."""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import AxisType, PartitionSpec as P


class TPLinear(nnx.Module):
    """A Linear that records its calls, its columns and their sums.

    Args:
        in_dim: Inputs.
        features: Outputs, over all devices.
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
        """Return one device's columns of the output, and record them.

        Args:
            x: Input, ``(batch, in_dim)``, replicated: ``P()``.
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


def tree_mode_shard_map(
    seed: float, x: jax.Array, features: float
) -> jax.Array:
    """Return float32 ``(7,)``: output and state of two tree-mode calls.

    The columns of the kernel, the bias and ``colsum`` are sharded over
    ``gcd(features, jax.device_count())`` devices, as ``P(None, "model")``
    and ``P("model")``.

    Args:
        seed: Seed of the parameters, a whole number in ``[0, 2**32)``.
        x: Input, ``(batch, in_dim)``, a NumPy or JAX array of any real
            dtype that JAX promotes to float32; replicated, ``P()``.
        features: Outputs of the layer, a whole number of at least 1.

    Returns:
        A float32 array, ``(7,)``: ``y.sum()``, where ``y`` is the output of
        the second call, sharded as ``P(None, "model")``; ``y[0, -1]``; the
        sum of ``colsum``; ``calls``; ``cols``; ``n_python``; and 1 if the
        model has an attribute ``last``, 0 if not. The last four values are
        2, ``features``, 0 and 0.

    Raises:
        ValueError: If ``seed`` or ``features`` is a fraction, NaN or
            infinite.

    References:
        Flax, pull request 5238, https://github.com/google/flax/pull/5238
    """
    if seed % 1 or features % 1:
        got = f"{seed} and {features}"
        raise ValueError(f"seed and features must be whole, got {got}")
    seed, features = int(seed), int(features)
    # --- solution ---
    devices = jax.devices()[: math.gcd(features, jax.device_count())]
    mesh = jax.make_mesh(
        (len(devices),), ("model",), (AxisType.Auto,), devices=devices
    )
    model = TPLinear(x.shape[-1], features, rngs=nnx.Rngs(seed))
    specs = jax.tree.map_with_path(
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
    path: tuple[jax.tree_util.KeyEntry, ...],
    variable: nnx.Variable[jax.Array],
) -> P:
    """Return the spec of a Variable of TPLinear, by its path."""
    specs = {
        "linear.kernel": P(None, "model"),
        "linear.bias": P("model"),
        "colsum": P("model"),
    }
    name = jax.tree_util.keystr(path, simple=True, separator=".")
    return specs.get(name, P())
