"""How long a layout takes to make and print, against the paths alone.

Each figure is a ratio of medians from one run, in which all take turns:
``repr(layout(tree))``, against JAX's list of the leaves with ``keystr`` of
each path, or with the names of each path that the table has. The trees have
ten thousand arrays, in the layers of a deep model.
"""

import gc
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P
from timing import medians

from shardbook import inputs
from shardscope import layout

ROUNDS = 15
# How many layers of four kernels and four biases.
LAYERS = 1250
KERNELS = {
    "query": P(None, "model"),
    "key": P(None, "model"),
    "value": P(None, "model"),
    "out": P("model", None),
}


class Attention(nnx.Module):
    """Four projections with biases, as a layer has them."""

    def __init__(self, make: Callable[..., Any]) -> None:
        for name, spec in KERNELS.items():
            setattr(self, name, Projection(make, spec))


class Projection(nnx.Module):
    """A kernel and a bias."""

    def __init__(self, make: Callable[..., Any], spec: P) -> None:
        self.kernel = nnx.Param(make((16, 16), spec))
        self.bias = nnx.Param(make((16,), P(spec[1])))


class Model(nnx.Module):
    """A stack of layers."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self.layers = nnx.List([Attention(make) for _ in range(LAYERS)])


def trees(make: Callable[..., Any]) -> dict[str, Any]:
    """Give the same arrays in three kinds of trees."""
    model = Model(make)
    state = nnx.state(model)
    return {
        "dict": nnx.to_pure_dict(state),
        "State": state,
        "Module": model,
    }


def main() -> None:
    """Print the ratio for each tree."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    mesh = inputs.mesh_of(2, 4)

    def abstract(shape: tuple[int, ...], spec: P) -> Any:
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)

    def concrete(shape: tuple[int, ...], spec: P) -> Any:
        return jax.device_put(jnp.ones(shape), NamedSharding(mesh, spec))

    columns = ("layout/keystr", "layout/names")
    print(f"{'10,000 arrays':16}", *(f"{column:>14}" for column in columns))
    for make in (concrete, abstract):
        for kind, tree in trees(make).items():
            found = medians(
                ROUNDS,
                {
                    work.__name__: partial(timed, work, tree)
                    for work in (keystr, names, printed)
                },
                warm_up=True,
            )
            ratios = (
                found["printed"] / found["keystr"],
                found["printed"] / found["names"],
            )
            print(
                f"{f'{make.__name__} {kind}':16}",
                *(f"{ratio:>14.2f}" for ratio in ratios),
            )


def timed(work: Callable[[Any], Any], tree: Any) -> float:
    """Time a call of one argument."""
    # A full collection takes longer than the call, and comes at any time.
    gc.collect()
    start = time.perf_counter()
    work(tree)
    return time.perf_counter() - start


def keystr(tree: Any) -> list[str]:
    """Write the paths of a tree as JAX does."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [jax.tree_util.keystr(path) for path, _ in leaves]


def names(tree: Any) -> list[str]:
    """Write the paths of a tree as names, joined by dots."""
    write = partial(jax.tree_util.keystr, simple=True, separator=".")
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [write(path) for path, _ in leaves]


def printed(tree: Any) -> str:
    """Print the layout."""
    return repr(layout(tree))
