"""Initialize a Linen model whose arrays are sharded by their boxes."""

from collections.abc import Sequence
from typing import Any

import jax
from flax import linen as nn
from flax.linen.spmd import logical_to_mesh_axes
from jax.sharding import Mesh, NamedSharding


def init_boxed(
    layer: nn.Module,
    key: jax.Array,
    x: Any,
    mesh: Mesh,
    rules: Sequence[tuple[str, Any]] = (),
) -> Any:
    """Return the variables of ``layer``, sharded as their boxes say.

    One program makes all arrays. If the initializers draw each number
    separately, a device needs memory for its own shards only: for results
    and temporaries, about as many bytes as the unsharded program, divided
    by the number of devices that share the arrays.

    Args:
        layer: Linen module with an ``__call__`` of one argument. Its boxes
            have no mesh and no rules of their own.
        key: Random key, as for ``layer.init``.
        x: Input, NumPy's or JAX's, as for ``layer.init``.
        mesh: Mesh with Auto axes. The names in an ``nn.Partitioned`` are
            its axes, or tuples of them, or None.
        rules: Pairs of a logical name and a mesh axis, a tuple of mesh
            axes or None, for the names in ``nn.LogicallyPartitioned``.
            In each array, a name gets its first rule whose mesh axes are
            still free.

    Returns:
        The variables that ``layer.init(key, x)`` gives, up to rounding, in
        the same boxes. Arrays without a box are replicated.

    Raises:
        ValueError: If a logical name has no rule, or, from JAX, if the
            mesh doesn't have an axis that an ``nn.Partitioned`` names: the
            message has the name. From JAX, if a dimension is indivisible.

    Example:
        >>> names = nn.with_partitioning(
        ...     nn.initializers.lecun_normal(), (None, "model")
        ... )
        >>> layer = nn.Dense(1024, kernel_init=names)
        >>> mesh = jax.make_mesh(
        ...     (jax.device_count(),),
        ...     ("model",),
        ...     (jax.sharding.AxisType.Auto,),
        ... )
        >>> x = jax.numpy.ones((1, 8))
        >>> variables = init_boxed(layer, jax.random.key(0), x, mesh)
        >>> variables["params"]["kernel"].value.sharding.spec
        PartitionSpec(None, 'model')

    References:
        Flax, *SPMD*,
        https://flax-linen.readthedocs.io/en/latest/api_reference/flax.linen/spmd.html
    """
    # --- solution ---
    known = {None, *(name for name, _ in rules)}

    def sharding_of(keys: Any, leaf: Any) -> NamedSharding:
        # For an array without a box the spec is P().
        spec = nn.get_partition_spec(leaf)
        if isinstance(leaf, nn.LogicallyPartitioned):
            if unknown := {*leaf.names} - known:
                where = jax.tree_util.keystr(keys)
                raise ValueError(f"no rule for {unknown} of {where}")
            spec = logical_to_mesh_axes(leaf.names, rules)
        return NamedSharding(mesh, spec)

    boxed = jax.eval_shape(layer.init, key, x)
    shardings = jax.tree.map_with_path(
        sharding_of, boxed, is_leaf=nn.meta.is_axis_metadata
    )
    return jax.jit(layer.init, out_shardings=shardings)(key, x)
