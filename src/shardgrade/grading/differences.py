"""Tell whether two values agree, and show where they do not."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardscope.tables import shortened

# How near two numbers must be to be the same.
NEAR: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4, "equal_nan": True}
# How many numbers, or lines that are alike, are shown.
_FEW = 8


def is_close(got: Any, expected: Any) -> bool:
    """Tell whether two trees agree: numbers nearly, all else exactly."""
    found, wanted = leaves(got), leaves(expected)
    return found.keys() == wanted.keys() and all(
        _is_close(found[path], wanted[path]) for path in wanted
    )


def _is_close(got: Any, expected: Any) -> bool:
    got, expected = numbers(got), numbers(expected)
    if not is_array(expected):
        return type(got) is type(expected) and bool(got == expected)
    if isinstance(got, jax.ShapeDtypeStruct):
        return False
    return np.shape(got) == expected.shape and np.allclose(
        got, expected, **NEAR
    )


def trained_apart(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Name the arrays that are not the same after a few steps of training.

    An optimizer enlarges differences of rounding, so arrays are compared
    as a whole, by the norm of what they differ in.
    """
    lines = []
    for path, right in wanted.items():
        # In NumPy: jax would compile a subtraction for each shape.
        ours, theirs = (np.asarray(a, float) for a in (right, found[path]))
        length, off = np.linalg.norm(ours), np.linalg.norm(theirs - ours)
        if not off <= 1e-3 * length:
            lines.append(
                f"{path} is off by {off / (length or 1):.1e} of its norm"
            )
    return "\n".join(lines) or "no array is off by 1e-3 of its norm"


def copies_apart(tree: Any) -> str:
    """Name an array whose copies on the devices are not the same, if any.

    jax takes one of them where it needs the values, and never compares
    them, so what was computed with ``check_vma=False`` can be right on one
    device alone. Copies may differ by a hundredth of the largest finite
    entry: devices may add up in another order.
    """
    for path, leaf in leaves(tree).items():
        array = numbers(leaf)
        if not isinstance(array, jax.Array) or array.is_deleted():
            continue
        first: dict[str, Any] = {}
        for shard in array.addressable_shards:
            copy = np.asarray(shard.data, float)
            other = first.setdefault(str(shard.index), copy)
            finite = other[np.isfinite(other)]
            near = 0.01 * np.abs(finite).max(initial=0)
            if not np.allclose(copy, other, 0, near, equal_nan=True):
                return f"{path} {type_of(leaf)} on {shard.device}".strip()
    return ""


def difference(
    found: Any,
    wanted: Any,
    over: Callable[[Any, Any, int], Any] | None = None,
) -> tuple[str, str]:
    """Write both sides: a few numbers in lines, else what differs first.

    Args:
        found: What came of the attempt.
        wanted: What came of the solution.
        over: Gives by how much each number of an array is over its limit,
            for both arrays and the place of their leaf.
    """
    if isinstance(found, str) and isinstance(wanted, str):
        found, wanted = _from_difference(found, wanted)
    got, expected = _entries(found), _entries(wanted)
    if got.keys() != expected.keys():
        return show(found), show(wanted)
    if len(expected) <= _FEW and all(
        np.ndim(leaf) == 0 and "\n" not in str(leaf)
        for leaf in (*expected.values(), *got.values())
    ):
        return _lines(got, expected)
    for place, (path, leaf) in enumerate(expected.items()):
        far = over(got[path], leaf, place) if over else None
        close = _is_close(got[path], leaf) if far is None else far <= 0
        if not np.all(close):
            left, right = show_both(got[path], leaf, far)
            return f"{path} {left}".strip(), f"{path} {right}".strip()
    return show(found), show(wanted)


def _from_difference(found: str, wanted: str) -> tuple[str, str]:
    """Leave out the lines before the first that differs, if many are."""
    got, expected = found.splitlines(), wanted.splitlines()
    pairs = enumerate(zip(got, expected, strict=False))
    same = next((i for i, (a, b) in pairs if a != b), 0)
    if same < _FEW:
        return found, wanted
    return (
        "\n".join(["...", *got[same:]]),
        "\n".join(["...", *expected[same:]]),
    )


def _entries(tree: Any) -> dict[str, Any]:
    """Give the leaves of a tree, or the entries of a short array."""
    if is_array(tree) and tree.ndim == 1 and 1 < tree.size <= _FEW:
        return {f"[{i}]": tree[i, ...] for i in range(tree.size)}
    return leaves(tree)


def _lines(
    got: dict[str, Any], expected: dict[str, Any]
) -> tuple[str, str]:
    """Write values in lines, which are the same where the values agree."""
    names = [
        path.strip("[']") if "'" in path else path for path in expected
    ]
    width = max(map(len, names), default=0)
    pairs = []
    for name, (path, leaf) in zip(names, expected.items(), strict=True):
        pair = show_number(got[path]), show_number(leaf)
        if _is_close(got[path], leaf):
            pair = pair[1], pair[1]
        elif pair[0] == pair[1] or len(expected) == 1:
            pair = show(got[path]), show(leaf)
        pairs.append([f"{name:{width}} {each}".strip() for each in pair])
    left, right = zip(*pairs, strict=True)
    return "\n".join(left), "\n".join(right)


def show_both(got: Any, expected: Any, over: Any = None) -> tuple[str, str]:
    """Write two values; of two arrays, the first entries that differ.

    Or those that are the farthest over their limits, if these are given.
    """
    words = show(got), show(expected)
    if not (is_array(got) and is_array(expected)):
        return words
    if got.shape != expected.shape or expected.ndim == 0:
        return words
    # In NumPy: an array on Explicit axes may not be indexed.
    got, expected = (np.asarray(numbers(each)) for each in (got, expected))
    verb = "differ" if over is None else "are too far off"
    if over is None:
        over = ~np.isclose(got, expected, **NEAR)
    wrong = ~(over <= 0)
    if not wrong.any():
        return words
    index = tuple(map(int, np.unravel_index(over.argmax(), over.shape)))
    left, right = (
        f"{type_of(each)} at {[*index]}: {show_number(each[index])}"
        for each in (got, expected)
    )
    count = f"{wrong.sum()} of {wrong.size} entries"
    return f"{left} ({count} {verb})", right


def show(value: Any) -> str:
    """Write a value so that it can be compared with another by eye."""
    if is_array(value):
        array = np.asarray(numbers(value))
        if array.size > 16:
            return f"{type_of(value)} {array.ravel()[:8]} ..."
        with np.printoptions(precision=6, suppress=True, linewidth=70):
            return f"{type_of(value)} {array}"
    return shortened(value if isinstance(value, str) else repr(value), 800)


def show_number(value: Any) -> str:
    """Write a number as people do; anything else as Python does."""
    value = numbers(value)
    number = value.tolist() if hasattr(value, "tolist") else value
    return f"{number:.6g}" if isinstance(number, float) else repr(number)


def type_of(value: Any) -> str:
    """Write dtype and shape of an array, or the type of anything else."""
    if is_array(value) or isinstance(value, jax.ShapeDtypeStruct):
        return f"{value.dtype}[{','.join(map(str, value.shape))}]"
    return "None" if value is None else type(value).__name__


def is_array(value: Any) -> bool:
    """Tell whether a value is an array of JAX or of NumPy."""
    return isinstance(value, jax.Array | np.ndarray)


def numbers(value: Any) -> Any:
    """Give a random key as its numbers, and anything else as it is."""
    if isinstance(value, jax.Array) and jnp.issubdtype(
        value.dtype, jax.dtypes.prng_key
    ):
        return jax.random.key_data(value)
    return value


def leaves(tree: Any) -> dict[str, Any]:
    """Give the leaves of a tree by their paths."""
    found = jax.tree_util.tree_leaves_with_path(
        tree, is_leaf=lambda node: node is None
    )
    return {jax.tree_util.keystr(path): leaf for path, leaf in found}
