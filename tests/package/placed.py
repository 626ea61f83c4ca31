"""Arrays that lie in every way that a mesh of eight devices allows."""

import math

import jax
import jax.numpy as jnp
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


@st.composite
def placed(draw: st.DrawFn) -> jax.ShapeDtypeStruct:
    """Draw an abstract array with a sharding that cuts it evenly."""
    mesh = draw(st.sampled_from(MESHES))
    ndim = draw(st.integers(0, 4))
    names = draw(st.permutations(mesh.axis_names))
    cut = names[: draw(st.integers(0, len(names)))] if ndim else []
    axes = [[] for _ in range(ndim)]
    for name in cut:
        axes[draw(st.integers(0, ndim - 1))].append(name)
    shape = tuple(
        draw(st.integers(1, 5)) * math.prod(mesh.shape[n] for n in names)
        for names in axes
    )
    spec = P(
        *(
            tuple(names) if len(names) > 1 else (names or [None])[0]
            for names in axes
        )
    )
    dtype = draw(st.sampled_from([jnp.float32, jnp.bfloat16, jnp.int8]))
    sharding = NamedSharding(mesh, spec)
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)
