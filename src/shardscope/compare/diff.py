"""Compare two files of programs, or two of layouts."""

from os import PathLike

from shardscope.compare.difference import (
    Difference,
    changes_of_arrays,
    require_part,
)
from shardscope.compare.files import read
from shardscope.compare.programs import compare


def difference_of_files(
    before: str | PathLike[str],
    after: str | PathLike[str],
    tolerance: float = 0.0,
) -> Difference:
    """Tell how a saved program or layout differs from an earlier one.

    Args:
        before: The earlier file.
        after: The later file.
        tolerance: By how much bytes and FLOPs of programs may differ, as
            a part of all bytes that a device sends, of the memory that it
            needs, or of all FLOPs.

    Raises:
        OSError: If a file can't be read.
        ValueError: If one of them is not a saved program or layout, or one
            is a program and the other a layout; or if the tolerance is not
            from 0 to 1.
    """
    require_part(tolerance)
    old, new = read(before), read(after)
    kinds = old["shardscope"], new["shardscope"]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"{before} is a saved {kinds[0]}, and {after} is a saved "
            f"{kinds[1]}. Compare two programs, or two layouts"
        )
    if kinds[0] == "layout":
        changes = changes_of_arrays(old["arrays"], new["arrays"])
        return Difference.of(changes)
    return compare(old, new, tolerance)
