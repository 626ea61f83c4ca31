"""Make an optimizer whose state is sharded like the parameters."""

from typing import Any

import jax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def optimizer_like_params(
    model: nnx.Module, tx: Any, mesh: Mesh
) -> nnx.Optimizer[nnx.Module]:
    """Return an ``nnx.Optimizer`` that is sharded like the parameters.

    With Adam's defaults, each device holds twice its bytes of the
    parameters, plus 8 bytes for two replicated counters.

    Args:
        model: A model whose arrays are on ``mesh``, with any shardings.
        tx: A gradient transformation of Optax, such as ``adam(1e-3)``.
        mesh: Mesh with Auto axes.

    Returns:
        ``nnx.Optimizer(model, tx, wrt=nnx.Param)``, with all its arrays
        committed to ``mesh``. An array that has the path and the shape of
        a parameter has the parameter's sharding; any other array is
        replicated, ``P()``.

    Example:
        ``optimizer_like_params(model, optax.adam(1e-3), mesh).step`` is
        uint32, with the value 0 and the spec ``P()``.

    References:
        Rajbhandari et al., *ZeRO: Memory Optimizations Toward Training
        Trillion Parameter Models*, 2020, section 3.1,
        https://arxiv.org/abs/1910.02054
    """
    # --- solution ---
    params = dict(jax.tree.leaves_with_path(nnx.state(model, nnx.Param)))
    replicated = NamedSharding(mesh, P())

    def place(path: tuple[Any, ...], leaf: jax.Array) -> Any:
        # The path of a moment ends with the path of its parameter.
        for start in range(len(path)):
            param = params.get(path[start:])
            if param is not None and param.shape == leaf.shape:
                return jax.device_put(leaf, param.sharding)
        return jax.device_put(leaf, replicated)

    # Flax asks for a mesh where Variables are annotated with its axes.
    with jax.set_mesh(mesh):
        optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)
    placed: nnx.Optimizer[nnx.Module] = jax.tree.map_with_path(
        place, optimizer
    )
    return placed
