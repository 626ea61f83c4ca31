"""Trees that hold arrays in every way that people have."""

from collections.abc import Callable, Iterable
from typing import Any

import flax.struct
import jax
import numpy as np
from flax import linen as nn, nnx
from hypothesis import strategies as st
from placed import placed

# A tree, and the same names and arrays in dicts and lists alone.
Pair = tuple[Any, Any]
NAMES = st.sampled_from(["a", "b2", "b10", "kernel", "value"])


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


def leaf(abstract: jax.ShapeDtypeStruct, box: Callable) -> Pair:
    """Put zeros where an abstract array would lie, and that in a box."""
    zeros = np.zeros(abstract.shape, abstract.dtype)
    array = jax.device_put(zeros, abstract.sharding)
    return box(array), array


def boxed(array: jax.Array) -> nn.Partitioned:
    """Give the array as Linen does, with names for its axes."""
    return nn.Partitioned(array, ("model",) * array.ndim)


LEAVES = st.builds(
    leaf, placed(), st.sampled_from([jax.numpy.asarray, nnx.Param, boxed])
)


def listed(kind: type, pairs: Iterable[Pair]) -> Pair:
    """Make a list or a tuple."""
    return kind(tree for tree, _ in pairs), [plain for _, plain in pairs]


def named(kind: Callable, pairs: dict[str, Pair]) -> Pair:
    """Make what has names for its children."""
    trees, plain = (
        {name: pair[n] for name, pair in pairs.items()} for n in (0, 1)
    )
    return kind(trees), plain


def holders(inside: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    """Draw what holds a few trees."""
    fields = {name: inside for name in Training.__dataclass_fields__}
    return st.one_of(
        st.builds(
            listed,
            st.sampled_from([list, tuple]),
            st.lists(inside, max_size=3),
        ),
        st.builds(
            named,
            st.sampled_from([dict, Holder]),
            st.dictionaries(NAMES, inside, max_size=3),
        ),
        st.builds(
            named,
            st.just(lambda trees: Training(**trees)),
            st.fixed_dictionaries(fields),
        ),
    )


TREES = st.recursive(LEAVES, holders, max_leaves=6)
