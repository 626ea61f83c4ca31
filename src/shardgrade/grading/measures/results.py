"""What a call returned: its values, and the tree that they are in."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax.experimental.multihost_utils import process_allgather

from shardgrade.grading.cases import Seen, leaves_by_path
from shardgrade.grading.differences import leaves, type_of


def result(seen: Seen) -> Any:
    """Give what a call returned."""
    return seen.result


def local_slices(seen: Seen) -> dict[str, Any]:
    """Give what this process holds of a returned array, by slice."""
    shape = seen.result.shape
    return {
        str(
            [
                x.indices(n)[:2]
                for x, n in zip(part.index, shape, strict=True)
            ]
        ): (np.asarray(part.data))
        for part in seen.result.addressable_shards
    }


def equal_in_all(seen: Seen) -> str:
    """Tell whether all processes got the same float."""
    # As bytes, because jax cuts a float64 to 32 bits.
    own = np.frombuffer(np.float64(seen.result).tobytes(), np.uint8)
    rows = process_allgather(own).reshape(-1, own.size)
    if len({row.tobytes() for row in rows}) == 1:
        return "the same number in all processes"
    numbers = np.frombuffer(rows.tobytes(), np.float64)
    return "\n".join(
        f"process {index}: {number}" for index, number in enumerate(numbers)
    )


def class_name(seen: Seen) -> str:
    """Name the class of what a call returned; NumPy's as numpy.float32."""
    found = type(seen.result)
    numpy = found.__module__ == "numpy"
    return f"{'numpy.' * numpy}{found.__name__}"


def entry_at(index: int) -> Callable[[Seen], Any]:
    """Give the function that gives one entry of a returned array."""

    def give(seen: Seen) -> Any:
        size = np.size(seen.result)
        return seen.result[index] if size > index else seen.result

    return give


def types(seen: Seen) -> str:
    """Describe the tree that a call returned: paths, dtypes and shapes."""
    return "\n".join(
        f"{path} {type_of(leaf)}".strip()
        for path, leaf in leaves(seen.result).items()
    )


def types_by_path(tree: Any) -> str:
    """Write paths, dtypes and shapes, of Variables or arrays alike."""
    found = sorted(leaves_by_path(tree).items())
    return "\n".join(f"{path} {type_of(leaf)}" for path, leaf in found)


def paths(seen: Seen) -> list[str]:
    """Name the arrays of what a call returned; one that is twice, once."""
    return [*leaves_by_path(seen.result)]


def as_list(seen: Seen) -> Any:
    """Give what a call returned as numbers, in lists if it has axes."""
    return np.asarray(seen.result).tolist()
