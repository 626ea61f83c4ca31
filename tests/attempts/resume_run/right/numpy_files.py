"""Write the arrays into files of NumPy, and wait for each checkpoint."""

import json
import shutil
from pathlib import Path

import jax
import numpy as np


def is_key(leaf):
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def names_of(tree):
    pairs = jax.tree.leaves_with_path(tree)
    return [jax.tree_util.keystr(path) for path, _ in pairs]


def write(folder, done, state):
    part = folder / f"part-tmp-{done}"
    part.mkdir()
    arrays = [
        np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)
        for leaf in jax.tree.leaves(state)
    ]
    np.savez(part / "arrays.npz", *arrays)
    (part / "names.json").write_text(json.dumps(names_of(state)))
    part.rename(folder / str(done))


def read(path, abstract):
    names = json.loads((path / "names.json").read_text())
    if names != names_of(abstract):
        raise ValueError(f"{path} has {names}")
    found = np.load(path / "arrays.npz")

    def place(number, leaf):
        array = found[f"arr_{number}"]
        placed = jax.make_array_from_callback(
            array.shape, leaf.sharding, lambda index: array[index]
        )
        return jax.random.wrap_key_data(placed) if is_key(leaf) else placed

    leaves, tree = jax.tree.flatten(abstract)
    return jax.tree.unflatten(tree, map(place, range(len(leaves)), leaves))


def resume_run(folder, abstract, make, step, batch, stop, every):
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    for part in folder.glob("part-tmp-*"):
        shutil.rmtree(part)
    steps = sorted(int(path.name) for path in folder.iterdir())
    state = read(folder / str(steps[-1]), abstract) if steps else make()
    for done in range(steps[-1] + 1 if steps else 1, stop + 1):
        state = step(state, batch(done - 1))
        if done % every == 0 or done == stop:
            write(folder, done, state)
            steps.append(done)
            for old in steps[:-2]:
                shutil.rmtree(folder / str(old), ignore_errors=True)
    return state
