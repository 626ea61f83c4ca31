"""Keep the position of the data in a JSON item, beside the state."""

import jax
import orbax.checkpoint as ocp


def resume_run(folder, abstract, make, step, batch, stop, every):
    keep_two = ocp.CheckpointManagerOptions(
        max_to_keep=2, cleanup_tmp_directories=True
    )
    with ocp.CheckpointManager(folder, options=keep_two) as manager:
        position = 0
        if (last := manager.latest_step()) is None:
            state = make()
        else:
            restore_args = ocp.checkpoint_utils.construct_restore_args(
                abstract
            )
            found = manager.restore(
                last,
                args=ocp.args.Composite(
                    state=ocp.args.PyTreeRestore(
                        item=abstract, restore_args=restore_args
                    ),
                    data=ocp.args.JsonRestore(),
                ),
            )
            state, position = found["state"], found["data"]["position"]
        while position < stop:
            state = step(state, batch(position))
            position += 1
            if position % every and position < stop:
                continue
            # Named by its last batch, as the position says what is next.
            manager.save(
                position - 1,
                args=ocp.args.Composite(
                    state=ocp.args.PyTreeSave(state),
                    data=ocp.args.JsonSave({"position": position}),
                ),
            )
        jax.block_until_ready(state)
    return state
