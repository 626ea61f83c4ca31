"""Train to a step, from the newest checkpoint if there is one."""

from collections.abc import Callable
from typing import Any

import orbax.checkpoint as ocp


def resume_run(
    folder: str,
    abstract: Any,
    make: Callable[[], Any],
    step: Callable[[Any, Any], Any],
    batch: Callable[[int], Any],
    stop: int,
    every: int,
) -> Any:
    """Train until the state has seen ``stop`` steps, and return it.

    Start every run of a job with this call, the first and those that
    follow a kill; ``stop`` and ``every`` may change. A checkpoint tells how
    many steps its state has seen, and so which batch comes next: a run
    that was killed at any moment repeats at most the steps since the
    newest complete checkpoint.

    Training goes on while a checkpoint is written: ``save`` waits until
    the one before is written, copies the arrays to the host and returns;
    the copy is at most as large as the shards of the process's devices.

    Call it outside ``jax.jit``. With several processes, all of them make
    the same call, on a folder that each can reach. Only one run at a time
    may use the folder: a second run may delete or damage the checkpoints
    of the first.

    Args:
        folder: Absolute path of the folder of checkpoints, each of which
            is a folder directly in it, with a number in its name. On
            ``gs://``, each run deletes folders in it that are not complete
            checkpoints.
        abstract: The state as a tree of ``jax.ShapeDtypeStruct``, each
            with the sharding that its array gets in this run: parameters,
            optimizer state, counters and random keys. Each is restored
            straight into it, without a copy between devices.
        make: Makes the state that the first run starts from, in these
            shardings. It is called only if no checkpoint is complete.
        step: Jitted; takes a state, which it donates, and a batch, and
            returns the next state, sharded like the one before.
        batch: Gives the batch of a step, counted from 0, on this run's
            mesh. It is called once for each step of this run, in order.
        stop: How many steps the returned state has seen, not less than
            the newest checkpoint has.
        every: A checkpoint is begun after each ``every`` steps that the
            state has seen, in whichever run, and at ``stop``. There may be
            more.

    Returns:
        The state, of the structure and the shardings of ``abstract``. If
        it has seen a step, its checkpoint is complete. If this run has
        saved one, the folder has at most the two newest, and nothing half
        written.

    Raises:
        ValueError: From Orbax, if the newest checkpoint has other names,
            another nesting or other shapes than ``abstract``; the folder
            keeps its checkpoints. Another dtype is cast. Where the
            checkpoint or ``abstract`` has a random key, you may get what
            was saved; where one of them has None or an empty container for
            an array, the state lacks that array.

    Example:
        ``resume_run("/data/run", abstract, make, step, batch, 100_000,
        500)`` trains to step 100,000, however often it is started.

    References:
        Orbax, *CheckpointManager*,
        https://orbax.readthedocs.io/en/stable/api_reference/checkpoint.checkpoint_manager.html
    """
    # --- solution ---
    options = ocp.CheckpointManagerOptions(
        save_interval_steps=every,
        max_to_keep=2,
        cleanup_tmp_directories=True,
    )
    # Leaving the block waits for what is still being written.
    with ocp.CheckpointManager(folder, options=options) as manager:
        done = manager.latest_step()  # of the complete checkpoints
        if done is None:
            done, state = 0, make()
        else:
            target = ocp.args.StandardRestore(abstract)
            state = manager.restore(done, args=target)
        while done < stop:
            state = step(state, batch(done))
            done += 1
            saved = ocp.args.StandardSave(state)
            manager.save(done, args=saved, force=done == stop)
        return state
