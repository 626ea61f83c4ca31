"""All sizes at once in NumPy, after the mistakes were looked for."""

from collections import Counter

import numpy as np


def shard_shape(shape, spec, mesh):
    rank = len(shape)
    entries = [*spec] + [None] * (rank - len(spec))
    if len(entries) != rank:
        raise ValueError(f"spec of rank {len(spec)}, array of rank {rank}")
    entries = [e if isinstance(e, tuple) else (e,) for e in entries]
    entries = [[name for name in e if name is not None] for e in entries]
    used = Counter(name for entry in entries for name in entry)
    if unknown := used.keys() - mesh.shape.keys():
        raise ValueError(f"{unknown} of {spec}: there are {mesh.shape}")
    if twice := [name for name in used if used[name] > 1]:
        raise ValueError(f"more than once: {twice}")
    counts = [
        np.prod([mesh.shape[n] for n in e], dtype=int) for e in entries
    ]
    rest = np.mod(shape, counts)
    if rest.any():
        axis = int(rest.argmax())
        raise ValueError(
            f"axis {axis}: {shape[axis]} by {counts[axis]}, {entries[axis]}"
        )
    return tuple(np.array(shape) // np.array(counts))
