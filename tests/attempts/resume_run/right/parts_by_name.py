"""Save the parts of the state under names of their own, by a policy."""

import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers as policies


def resume_run(folder, abstract, make, step, batch, stop, every):
    names = ("params", "opt", "key")
    manager = ocp.CheckpointManager(
        folder,
        options=ocp.CheckpointManagerOptions(
            save_decision_policy=policies.AnySavePolicy(
                [
                    policies.FixedIntervalPolicy(every),
                    policies.SpecificStepsPolicy([stop]),
                ]
            ),
            preservation_policy=policies.LatestN(2),
            cleanup_tmp_directories=True,
        ),
    )

    def read(newest):
        wanted = {
            name: ocp.args.StandardRestore({name: abstract[name]})
            for name in names
        }
        parts = manager.restore(newest, args=ocp.args.Composite(**wanted))
        found = {name: parts[name][name] for name in names}
        return {**found}

    try:
        newest = manager.latest_step()
        state = make() if newest is None else read(newest)
        for number in range(newest or 0, stop):
            state = step(state, batch(number))
            parts = {
                name: ocp.args.StandardSave({name: state[name]})
                for name in names
            }
            manager.save(number + 1, args=ocp.args.Composite(**parts))
        manager.wait_until_finished()
        return state
    finally:
        manager.close()
