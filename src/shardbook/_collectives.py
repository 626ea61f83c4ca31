"""Count the collectives in the text of a compiled program."""

import re
from collections import Counter

# One instruction: its kind, and the rest of its line. What stands in
# quotation marks before is metadata, which may hold any words.
_COLLECTIVE = re.compile(
    r'^[^"\n]* (all-gather|all-reduce|all-to-all|collective-broadcast'
    r"|collective-permute|ragged-all-to-all|reduce-scatter)(?:-start)?"
    r"\((.*)",
    re.MULTILINE,
)
# XLA writes groups of a single device in one of these ways:
#   replica_groups={{0},{1}}                  device by device
#   replica_groups=[8,1]<=[8]                 number, size
#   source_target_pairs={{0,0},{1,1}}         from, to
#   replica_groups=mesh['data'=8,'model'=1] {'model'}    along axes
_ALONE = re.compile(
    r"\breplica_groups=(?:\{(?:\{\d+\},?)+\}|\[\d+,1\])"
    r"|\bsource_target_pairs=\{(?:\{(\d+),\1\},?)+\}"
)
_ALONG_AXES = re.compile(r"\breplica_groups=mesh\[(.*?)\].*?\{(.*?)\}")


def _is_alone(attributes: str) -> bool:
    """Tell whether no device of a collective needs another one."""
    along_axes = _ALONG_AXES.search(attributes)
    if along_axes is None:
        return _ALONE.search(attributes) is not None
    sizes = dict(re.findall(r"'([^']*)'=(\d+)", along_axes[1]))
    # 'model':(2)4 is a part of the axis, of size 4.
    axes = re.findall(r"'([^']*)'(?::\(\d+\)(\d+))?", along_axes[2])
    return all((part or sizes[name]) == "1" for name, part in axes)


def count_collectives(text: str) -> dict[str, int]:
    """Count the collectives in the text of a compiled program, by kind.

    Those in which every group is a single device are not counted.
    """
    kinds = Counter(
        kind
        for kind, attributes in _COLLECTIVE.findall(text)
        if not _is_alone(attributes)
    )
    return dict(sorted(kinds.items()))
