# wrong: structure
"""TPLinear without the lines that tree mode drops, in graph mode."""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import AxisType, PartitionSpec as P


class TPLinear(nnx.Module):
    """A Linear that keeps books. ``step`` is written for one device."""

    def __init__(
        self, in_dim: int, features: int, *, rngs: nnx.Rngs
    ) -> None:
        self.linear = nnx.Linear(in_dim, features, rngs=rngs)
        self.calls = nnx.BatchStat(jnp.zeros(()))
        self.cols = nnx.BatchStat(jnp.zeros(()))
        self.colsum = nnx.BatchStat(jnp.zeros((features,)))
        self.n_python = 0

    def step(self, x: jax.Array) -> jax.Array:
        """Compute this device's columns of the output, and keep books."""
        y = self.linear(x)
        columns = jnp.float32(self.linear.kernel.shape[1])
        self.calls[...] += 1.0
        self.cols[...] = jax.lax.psum(columns, "model")
        self.colsum[...] += y.sum(axis=0)
        return y


def tree_mode_shard_map(seed, x, features):
    count = math.gcd(int(features), jax.device_count())
    mesh = jax.make_mesh(
        (count,),
        ("model",),
        (AxisType.Auto,),
        devices=jax.devices()[:count],
    )
    model = TPLinear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    specs = nnx.StateSharding(
        {
            nnx.PathContains("kernel"): P(None, "model"),
            nnx.PathContains("bias"): P("model"),
            nnx.PathContains("colsum"): P("model"),
            nnx.PathContains("last"): P(None, "model"),
            ...: P(),
        }
    )
    step = nnx.shard_map(
        TPLinear.step,
        mesh=mesh,
        in_specs=(specs, P()),
        out_specs=P(None, "model"),
        graph=True,
    )
    step = nnx.jit(step, graph=True)
    step(model, x)
    y = step(model, x)
    return jnp.array(
        [
            float(y.sum()),
            float(y[0, -1]),
            float(model.colsum[...].sum()),
            float(model.calls[...]),
            float(model.cols[...]),
            float(model.n_python),
            float(hasattr(model, "last")),
        ],
        jnp.float32,
    )
