"""SAY IN A LINE WHAT IS TESTED."""

from shardbook.inputs import mesh_of, normal
from shardbook.problems.pipeline_forward import pipeline_forward


def test_the_values_are_those_of_numpy() -> None:
    """pipeline_forward gives NumPy's values, sharded over "data"."""
    pipeline_forward(normal(8, 4), mesh_of(1, 1))

    raise NotImplementedError(
        "write tests/problems/test_pipeline_forward.py: "
        "values as NumPy computes them, sharding and collectives, "
        "on 1, 2, 4 and 8 devices"
    )
