"""Hypothesis strategies: placed arrays, and trees that hold them."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn, nnx
from hypothesis import strategies as st
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

MESHES = [
    jax.make_mesh(shape, names, (AxisType.Auto,) * len(shape))
    for shape, names in [
        ((8,), ("model",)),
        ((2, 4), ("data", "model")),
        ((4, 2), ("data", "model")),
        ((2, 2, 2), ("data", "model", "expert")),
    ]
]
# A tree, and the same names and arrays in dicts and lists alone.
Pair = tuple[Any, Any]


@st.composite
def placed(draw: st.DrawFn) -> jax.ShapeDtypeStruct:
    """Draw an abstract array with a sharding that divides its shape."""
    mesh = draw(st.sampled_from(MESHES))
    ndim = draw(st.integers(0, 4))
    names = draw(st.permutations(mesh.axis_names))
    used = names[: draw(st.integers(0, len(names)))] if ndim else []
    axes: list[list[str]] = [[] for _ in range(ndim)]
    for name in used:
        axes[draw(st.integers(0, ndim - 1))].append(name)
    shape = tuple(
        draw(st.integers(1, 5)) * math.prod(mesh.shape[n] for n in names)
        for names in axes
    )
    entries = [
        tuple(names) if len(names) > 1 else (names or [None])[0]
        for names in axes
    ]
    dtype = draw(st.sampled_from([jnp.float32, jnp.bfloat16, jnp.int8]))
    sharding = NamedSharding(mesh, P(*entries))
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


@flax.struct.dataclass
class Training:
    """What a training loop carries."""

    opt_state: Any
    params: Any
    step: Any


class Holder(nnx.Module):
    """A Module that has some children."""

    def __init__(self, children: dict[str, Any]) -> None:
        for name, child in children.items():
            setattr(self, name, nnx.data(nn.unbox(child)))


def leaf(
    abstract: jax.ShapeDtypeStruct, box: Callable[[jax.Array], Any]
) -> Pair:
    """Make an array of zeros, placed and boxed, and the array alone."""
    zeros = np.zeros(abstract.shape, abstract.dtype)
    array = jax.device_put(zeros, abstract.sharding)
    return box(array), array


def boxed(array: jax.Array) -> nn.Partitioned:
    """Give the array as Linen does, with names for its axes."""
    return nn.Partitioned(array, ("model",) * array.ndim)


def listed(kind: Callable[..., Any], pairs: Iterable[Pair]) -> Pair:
    """Make a list or a tuple."""
    return kind(tree for tree, _ in pairs), [plain for _, plain in pairs]


def named(kind: Callable[..., Any], pairs: dict[Any, Pair]) -> Pair:
    """Make what has names for its children."""
    trees, plain = (
        {name: pair[n] for name, pair in pairs.items()} for n in (0, 1)
    )
    return kind(trees), plain


def containers(inside: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    """Draw a list, tuple, dict, Module or dataclass of a few trees."""
    names = st.sampled_from(["a", "b2", "b10", "kernel", "value"])
    children = st.dictionaries(names, inside, max_size=3)
    # In the order of numbers, not of digits.
    numbered = st.dictionaries(st.integers(0, 11), inside, max_size=3)
    fields = {name: inside for name in Training.__dataclass_fields__}
    return st.one_of(
        st.builds(
            listed,
            st.sampled_from([list, tuple]),
            st.lists(inside, max_size=3),
        ),
        st.builds(named, st.sampled_from([dict, Holder]), children),
        st.builds(named, st.just(dict), numbered),
        st.builds(
            named,
            st.just(lambda trees: Training(**trees)),
            st.fixed_dictionaries(fields),
        ),
    )


LEAVES = st.builds(
    leaf, placed(), st.sampled_from([jnp.asarray, nnx.Param, boxed])
)
TREES = st.recursive(LEAVES, containers, max_leaves=6)
