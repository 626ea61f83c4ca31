"""Models that are born on meshes of all the devices that there are."""

from collections.abc import Callable

import jax
import numpy as np
import pytest
from flax import nnx
from jax.sharding import Mesh, PartitionSpec as P
from models import arrays, numbers

from shardbook import inputs
from shardbook.problems.init_sharded import init_sharded
from shardscope import program


def test_values_and_shards(mesh: Mesh) -> None:
    """It has the values of an eager model, and shards by the rules."""
    size = mesh.shape["model"]

    model = init_sharded(lambda: inputs.vision(16, 8), mesh, inputs.RULES)

    eager = inputs.vision(16, 8)
    sharded = {
        "conv.kernel": (4, 4, 3, 16 // size),
        "conv.bias": (16 // size,),
        "attention.query.kernel": (16, 8 // size, 2),
        "attention.key.kernel": (16, 8 // size, 2),
        "attention.value.kernel": (16, 8 // size, 2),
        "attention.query.bias": (8 // size, 2),
        "attention.key.bias": (8 // size, 2),
        "attention.value.bias": (8 // size, 2),
        "attention.out.kernel": (8 // size, 2, 16),
        "layers.0.up.kernel": (16, 64 // size),
        "layers.0.up.bias": (64 // size,),
        "layers.0.down.kernel": (64 // size, 16),
    }
    made, expected = arrays(model), arrays(eager)
    assert nnx.graphdef(model) == nnx.graphdef(eager)
    assert made.keys() == expected.keys() >= sharded.keys()
    for path, array in made.items():
        shapes = {shard.data.shape for shard in array.addressable_shards}
        assert shapes == {sharded.get(path, array.shape)}
        assert array.devices() == {*mesh.devices.flat}
        np.testing.assert_allclose(
            numbers(array), numbers(expected[path]), rtol=1e-5, atol=1e-6
        )


def test_a_device_needs_memory_for_its_shards(mesh: Mesh) -> None:
    """A program needs its part of what the whole model needs."""

    def build() -> nnx.Module:
        return inputs.mlp(256, 512, 256)

    whole = program(lambda: nnx.state(build()))
    sharded = program(
        lambda: nnx.state(init_sharded(build, mesh, inputs.RULES))
    )

    part = whole.memory.total / mesh.shape["model"]
    assert part <= sharded.memory.total <= 1.02 * part
    assert sharded.collectives == {}


def test_build_sees_no_numbers(mesh: Mesh) -> None:
    """Wherever the model is built, its arrays are tracers."""
    seen = []

    def build() -> nnx.Module:
        model = inputs.mlp(8, 16, 8)
        seen.append(isinstance(model.up.kernel[...], jax.core.Tracer))
        return model

    init_sharded(build, mesh, inputs.RULES)

    assert seen
    assert all(seen)


def test_a_layer_that_is_there_twice(mesh: Mesh) -> None:
    """What is one layer stays one."""
    model = init_sharded(
        lambda: inputs.twice(inputs.mlp(8, 16, 8)), mesh, inputs.RULES
    )

    assert model[0] is model[1]


@pytest.mark.parametrize(
    ("first", "axis"), [("up", "model"), ("up.*", "data")]
)
def test_the_first_rule_for_the_whole_path(
    mesh: Mesh, first: str, axis: str
) -> None:
    """A part of a path is not enough, and a later rule has no say."""
    rules = [(first, P("data")), ("up.kernel", P("model")), (".*", P())]

    model = init_sharded(lambda: inputs.mlp(8, 16, 8), mesh, rules)

    shard = model.up.kernel[...].addressable_shards[0].data
    assert shard.shape == (8 // mesh.shape[axis], 16)


def test_what_is_refused() -> None:
    """No rule, or a size that does not divide, is a ValueError."""
    count = jax.device_count()
    mesh = inputs.mesh_of(1, count)

    def build(hidden: int) -> Callable[[], nnx.Module]:
        return lambda: inputs.mlp(8, hidden, 8)

    with pytest.raises(ValueError, match=r"no rule matches down\.bias"):
        init_sharded(build(8), mesh, [(".*kernel", P())])
    if count > 1:
        with pytest.raises(ValueError, match="evenly divide"):
            init_sharded(build(2 * count - 1), mesh, inputs.RULES)
