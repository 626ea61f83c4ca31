"""Edit arrays of a sharded model in place, by their paths."""

import re
from collections.abc import Callable

import jax
from flax import nnx


def edit_kernels(
    model: nnx.Module,
    pattern: str,
    edit: Callable[[jax.Array], jax.Array],
) -> None:
    r"""Apply an elementwise function to each array whose path matches.

    Each device computes its own shards, so no device holds more of an
    array than before, and nothing is communicated. Call it outside
    ``jit``.

    Args:
        model: Any Module whose arrays are committed to devices, for
            example on a mesh. Its Variables keep their types and metadata
            and get new arrays of the same shape, dtype and sharding.
        pattern: Regular expression for the whole path of an array: the
            names that lead to it, joined by dots, as in
            ``layers.0.kernel``.
        edit: Takes an array, in its own dtype, and returns one of the same
            shape, with each element computed from the same element alone.
            In a call, it is traced once for all arrays of one shape, dtype
            and sharding; the next call traces and compiles it again.

    Returns:
        None, because the model is changed in place.

    Raises:
        ValueError: If the pattern matches no path. The message has the
            pattern.

    Example:
        Halve each kernel of the layers:
        ``edit_kernels(model, r"layers\..*\.kernel", lambda k: k / 2)``.

    References:
        Flax, *Model surgery*,
        https://flax.readthedocs.io/en/latest/guides/surgery.html
    """
    # --- solution ---
    matched = False

    def edited(array: jax.Array) -> jax.Array:
        return edit(array).astype(array.dtype)

    for keys, variable in nnx.to_flat_state(nnx.state(model)):
        if re.fullmatch(pattern, ".".join(map(str, keys))):
            array = variable[...]
            # Without out_shardings, an array that edit makes itself is on
            # one device.
            in_place = jax.jit(edited, out_shardings=array.sharding)
            variable[...] = in_place(array)
            matched = True
    if not matched:
        raise ValueError(f"no array has a path that matches {pattern!r}")
