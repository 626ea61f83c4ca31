"""Inputs of calls of ``dropout_by_rows``."""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh, PartitionSpec as P


def in_blocks(
    function: Callable[..., jax.Array],
    rate: float,
    spec: P,
    mesh: Mesh,
    *,
    check_vma: bool = True,
) -> Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
    """Return a function that drops entries of an array, block by block.

    Args:
        function: Called while it is traced, inside ``jax.shard_map``:
            ``function(key, block, rate, spec)``.
        rate: The probability of being dropped.
        spec: How the array is sharded.
        mesh: Mesh with the axes that the spec names.
        check_vma: Passed on to ``jax.shard_map``.

    Returns:
        A compiled function of a whole array and a key. It returns what the
        blocks of all devices make, ``y``, and the gradient of ``y.sum()``
        with respect to the array, which each device takes of its block.
    """

    @jax.jit
    @jax.shard_map(
        mesh=mesh,
        in_specs=(spec, P()),
        out_specs=(spec, spec),
        check_vma=check_vma,
    )
    def blocks(x: jax.Array, key: jax.Array) -> Any:
        def total(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            y = function(key, x, rate, spec)
            return y.sum(), y

        gradient, y = jax.grad(total, has_aux=True)(x)
        return y, gradient

    found: Callable[..., tuple[jax.Array, jax.Array]] = blocks
    return found
