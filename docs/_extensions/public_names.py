"""Resolve the private names of jax and flax to the documented ones."""

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

# Annotations lead to where an object is defined, inventories to where it
# is documented.
PUBLIC = {
    "flax.nnx.graphlib.GraphDef": "flax.nnx.GraphDef",
    "flax.nnx.module.Module": "flax.nnx.Module",
    "flax.nnx.rnglib.Rngs": "flax.nnx.Rngs",
    "flax.nnx.statelib.State": "flax.nnx.State",
    "flax.nnx.variablelib.Variable": "flax.nnx.Variable",
    "jax.P": "jax.sharding.PartitionSpec",
    "jax._src.basearray.Array": "jax.Array",
    "jax._src.mesh.Mesh": "jax.sharding.Mesh",
    "jax._src.named_sharding.NamedSharding": "jax.sharding.NamedSharding",
    "jax._src.partition_spec.PartitionSpec": "jax.sharding.PartitionSpec",
    "jax._src.sharding.Sharding": "jax.sharding.Sharding",
    "jax.jaxlib._jax.Array": "jax.Array",
    "jaxlib._jax.Device": "jax.Device",
}


def rename(
    app: Sphinx,
    environment: BuildEnvironment,
    node: pending_xref,
    text: nodes.TextElement,
) -> None:
    target = node.get("reftarget")
    node["reftarget"] = PUBLIC.get(target, target)


def setup(app: Sphinx) -> dict[str, bool]:
    # Before intersphinx, which has the usual priority of 500.
    app.connect("missing-reference", rename, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
