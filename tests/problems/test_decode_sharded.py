"""SAY IN A LINE WHAT IS TESTED."""

from shardbook.inputs import mesh_of, normal
from shardbook.problems.decode_sharded import decode_sharded


def test_the_values_are_those_of_numpy() -> None:
    """decode_sharded gives NumPy's values, sharded over "data"."""
    decode_sharded(normal(8, 4), mesh_of(1, 1))

    raise NotImplementedError(
        "write tests/problems/test_decode_sharded.py: "
        "values as NumPy computes them, sharding and collectives, "
        "on 1, 2, 4 and 8 devices"
    )
