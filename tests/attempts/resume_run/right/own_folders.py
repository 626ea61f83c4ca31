"""Write each checkpoint into a folder of its own, without a manager."""

import re
import shutil
from pathlib import Path

import orbax.checkpoint as ocp


def resume_run(folder, abstract, make, step, batch, stop, every):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if "tmp" in path.name:
            shutil.rmtree(path)
    saver = ocp.AsyncCheckpointer(ocp.StandardCheckpointHandler())
    steps = numbers(folder)
    if steps:
        state = saver.restore(
            folder / f"step_{steps[-1]}",
            args=ocp.args.StandardRestore(abstract),
        )
    else:
        state = make()
    for i in range(steps[-1] if steps else 0, stop):
        state = step(state, batch(i))
        if (i + 1) % every == 0 or i + 1 == stop:
            # This waits for the one before.
            saver.save(
                folder / f"step_{i + 1}", args=ocp.args.StandardSave(state)
            )
            for old in numbers(folder)[:-2]:
                shutil.rmtree(folder / f"step_{old}")
    saver.close()
    for old in numbers(folder)[:-2]:
        shutil.rmtree(folder / f"step_{old}")
    return state


def numbers(folder):
    names = (path.name for path in folder.iterdir())
    return sorted(
        int(name[5:]) for name in names if re.fullmatch(r"step_\d+", name)
    )
