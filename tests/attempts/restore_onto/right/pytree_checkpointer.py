"""Say the sharding of each array in the arguments of the restore."""

import re

import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import NamedSharding


def restore_onto(path, build, mesh, rules):
    model = nnx.eval_shape(build)
    state = nnx.state(model)
    flat = {}
    for names, variable in nnx.to_flat_state(state):
        name = ".".join(map(str, names))
        specs = [spec for words, spec in rules if re.fullmatch(words, name)]
        leaf = variable.get_value()
        leaf = leaf.update(sharding=NamedSharding(mesh, specs[0]))
        flat[names] = variable.replace(leaf)
    wanted = nnx.from_flat_state(flat)
    reader = ocp.Checkpointer(ocp.PyTreeCheckpointHandler())
    arguments = ocp.checkpoint_utils.construct_restore_args(wanted)
    restored = reader.restore(
        path,
        args=ocp.args.PyTreeRestore(item=wanted, restore_args=arguments),
    )
    nnx.update(model, restored)
    return model
