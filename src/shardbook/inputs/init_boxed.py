"""Inputs of calls of ``init_boxed``."""

from typing import Any

import jax
from flax import linen as nn


def random_key(seed: int) -> jax.Array:
    """Return ``jax.random.key(seed)``."""
    return jax.random.key(seed)


def dense(
    features: int,
    kernel: tuple[Any, ...] | None = None,
    bias: tuple[Any, ...] | None = None,
    *,
    logical: bool = False,
) -> nn.Dense:
    """Return a Dense of Linen whose parameters may be in boxes.

    Args:
        features: Its outputs.
        kernel: The names in the box of its kernel, one for each dimension.
            Without names the kernel has no box.
        bias: The names in the box of its bias, in the same way.
        logical: Whether the boxes are ``nn.LogicallyPartitioned``, whose
            names are logical, and not ``nn.Partitioned``.

    Returns:
        A layer with flax's usual initializers, ``lecun_normal`` for the
        kernel and zeros for the bias.
    """
    wrap = nn.with_logical_partitioning if logical else nn.with_partitioning

    def boxed(init: Any, names: tuple[Any, ...] | None) -> Any:
        return wrap(init, names) if names else init

    return nn.Dense(
        features,
        kernel_init=boxed(nn.initializers.lecun_normal(), kernel),
        bias_init=boxed(nn.initializers.zeros_init(), bias),
    )


def normed(*layers: nn.Module) -> nn.Module:
    """Return layers of Linen in a row, and a BatchNorm after the last.

    Args:
        *layers: The layers.

    Returns:
        A Sequential. The BatchNorm has parameters, ``scale`` and ``bias``,
        and batch statistics, ``mean`` and ``var``, all without boxes.
    """
    return nn.Sequential([*layers, nn.BatchNorm(use_running_average=True)])
