"""Models on meshes of all the devices that there are, by rules."""

import jax
import numpy as np
import pytest
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from models import arrays, numbers

from shardbook import inputs
from shardbook.problems.place_state import place_state
from shardscope import collectives


def test_shards_of_each_device(mesh: Mesh) -> None:
    """Kernels are sharded by what they are for, and the rest replicated."""
    size = mesh.shape["model"]
    model = inputs.vision(16, 8)
    model.eval()

    placed = place_state(model, mesh, inputs.RULES)

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
    before, after = arrays(model), arrays(placed)
    assert before.keys() == after.keys() >= sharded.keys()
    assert nnx.graphdef(placed) == nnx.graphdef(model)
    for path, array in after.items():
        shapes = {shard.data.shape for shard in array.addressable_shards}
        assert shapes == {sharded.get(path, array.shape)}
        assert array.devices() == {*mesh.devices.flat}
        np.testing.assert_array_equal(numbers(array), numbers(before[path]))
        assert before[path].devices() == {jax.devices()[0]}


def test_a_sharded_mlp_needs_one_all_reduce(mesh: Mesh) -> None:
    """From any device, its rules make it Megatron's, with its values."""
    model = jax.device_put(inputs.mlp(8, 16, 8), jax.devices()[-1])
    x = jax.device_put(inputs.normal(8, 8), NamedSharding(mesh, P("data")))
    forward = jax.jit(lambda model, x: model(x))

    placed = place_state(model, mesh, inputs.RULES)

    up, down = model.up, model.down
    h = np.asarray(x) @ np.asarray(up.kernel) + np.asarray(up.bias)
    gelu = (1 + np.tanh((2 / np.pi) ** 0.5 * (h + 0.044715 * h**3))) * h / 2
    expected = gelu @ np.asarray(down.kernel) + np.asarray(down.bias)
    np.testing.assert_allclose(forward(placed, x), expected, atol=1e-5)
    one = {"all-reduce": 1} if mesh.shape["model"] > 1 else {}
    assert collectives(forward, placed, x) == one


def test_the_first_rule_for_the_whole_path(mesh: Mesh) -> None:
    """A part of a path is not enough, and a later rule has no say."""
    rules = [
        ("kernel", P("data")),
        ("up", P("data")),
        ("up.*", P("model")),
        ("up.kernel", P("data")),
        (".*", P()),
    ]

    placed = arrays(place_state(inputs.mlp(8, 16, 8), mesh, rules))

    size = mesh.shape["model"]
    shapes = {
        path: array.addressable_shards[0].data.shape
        for path, array in placed.items()
    }
    assert shapes == {
        "up.kernel": (8 // size, 16),
        "up.bias": (16 // size,),
        "down.kernel": (16, 8),
        "down.bias": (8,),
    }


def test_a_layer_that_is_there_twice(mesh: Mesh) -> None:
    """What is one layer stays one."""
    placed = place_state(
        inputs.twice(inputs.mlp(8, 16, 8)), mesh, inputs.RULES
    )

    assert placed[0] is placed[1]


def test_all_that_is_refused_is_named() -> None:
    """One error has the path of each array that can't be laid out."""
    count = jax.device_count()
    mesh = inputs.mesh_of(1, count)
    rules = [
        (r"up\.kernel", P("modle")),
        (r"up\.bias", P(None, "model")),
        (r"down\.kernel", P("model", "model")),
    ]

    with pytest.raises(ValueError, match=r"up.bias") as caught:
        place_state(inputs.mlp(8, 16, 8), mesh, rules)

    lines = dict(
        line.split(": ", 1) for line in str(caught.value).splitlines()
    )
    assert "modle" in lines["up.kernel"]
    assert "rank at least 2" in lines["up.bias"]
    assert "duplicate" in lines["down.kernel"]
    assert lines["down.bias"] == "no rule matches"


def test_a_size_that_does_not_divide() -> None:
    """A size that leaves a remainder is refused with its path."""
    count = jax.device_count()
    if count == 1:
        pytest.skip("one device divides any size")
    mesh = inputs.mesh_of(1, count)

    with pytest.raises(ValueError, match=r"up.kernel: .*evenly divide"):
        place_state(inputs.mlp(8, 2 * count - 1, 8), mesh, inputs.RULES)
