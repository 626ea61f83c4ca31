"""Which device holds what, and what was copied to get it there."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax

from shardgrade.grading._jax_internals import copies_through_host
from shardgrade.grading.attempt import Crashed
from shardgrade.grading.cases import Seen, leaves_by_path
from shardgrade.grading.differences import is_array, leaves, type_of
from shardscope.arrays.shards import describe_holders


def shards(seen: Seen) -> str:
    """Describe which device holds which slice of what a call returned."""
    return "\n".join(map(describe_shards, leaves(seen.result).values()))


def result_layouts(seen: Seen) -> dict[str, str]:
    """Describe the shards of what a call returned, by path."""
    return shards_by_path(seen.result)


def argument_layouts(seen: Seen) -> dict[str, str]:
    """Describe the shards of the first argument, as the call left it."""
    return shards_by_path(seen.arguments[0])


def shards_by_path(tree: Any) -> dict[str, str]:
    """Describe the shards of each array; of one that is twice, once."""
    return {
        path: describe_shards(x) for path, x in leaves_by_path(tree).items()
    }


def describe_shards(array: Any) -> str:
    """Describe which device holds which slice of an array."""
    if isinstance(array, jax.Array | jax.ShapeDtypeStruct):
        if isinstance(array, jax.Array) and array.is_deleted():
            return f"{type_of(array)}, deleted"
        if array.sharding is None:
            return f"{type_of(array)}, on no device"
        # Without the spec, which can be spelled in more ways than one.
        lines = describe_holders(array.sharding, array.shape)
        return "\n".join([type_of(array), *lines])
    if is_array(array):
        return f"{type_of(array)} in NumPy, on no device"
    return f"{type_of(array)}, no array"


@contextmanager
def note_copies() -> Iterator[list[Any]]:
    """Note copies from one device to another, but in jit.

    jax refuses those that are direct, and takes a sharded array through
    the host instead. Any other error is the attempt's own.
    """
    with copies_through_host() as copied:
        try:
            with jax.transfer_guard_device_to_device("disallow_explicit"):
                yield copied
        except Crashed as crash:
            if "Disallowed device-to-device" not in str(crash.error):
                raise
            copied.append(crash)


def describe_copies(seen: Seen) -> str:
    """Tell whether a call under :func:`note_copies` made a copy."""
    some = "a copy" if seen.noted else "no copy"
    return f"{some} from one device to another"
