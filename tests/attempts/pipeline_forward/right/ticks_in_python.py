"""Loops in Python, a ring, and stages that skip what they don't need."""

import operator

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


class Pipeline:
    def __init__(self, block, mesh, count):
        self.block, self.count = block, count
        self.stages = mesh.shape["model"]
        self.ring = [(i, (i + 1) % self.stages) for i in range(self.stages)]

    def stage(self, layers, y):
        for number in range(len(jax.tree.leaves(layers)[0])):
            params = jax.tree.map(operator.itemgetter(number), layers)
            y = self.block(params, y)
        return y

    def __call__(self, layers, rows):
        layers = jax.lax.pcast(layers, "data", to="varying")
        rows = jax.lax.pcast(rows, "model", to="varying")
        index = jax.lax.axis_index("model")
        parts = jnp.split(rows, self.count)
        arrived, left = jnp.zeros_like(parts[0]), []
        for tick in range(self.count + self.stages - 1):
            entering = parts[tick] if tick < self.count else arrived
            y = jnp.where(index == 0, entering, arrived)
            busy = (index <= tick) & (tick < index + self.count)
            y = jax.lax.cond(busy, self.stage, lambda _, y: y, layers, y)
            left.append(y)
            arrived = jax.lax.ppermute(y, "model", self.ring)
        done = jnp.concatenate(left[self.stages - 1 :])
        is_last = (index == self.stages - 1).astype(done.dtype)
        return jax.lax.psum(is_last * done, "model")


def pipeline_forward(block, stacked, x, mesh, count):
    data = mesh.shape["data"]
    if x.shape[0] % (data * count):
        raise ValueError(f"rows={x.shape[0]}, data={data}, count={count}")
    return jax.shard_map(
        Pipeline(block, mesh, count),
        mesh=mesh,
        in_specs=(P("model"), P("data")),
        out_specs=P("data"),
    )(stacked, x)
