"""What layout() reports of trees and Modules."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from flax import nnx
from hypothesis import given
from jax.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec as P,
)
from strategies import MESHES, TREES, Pair, placed

from shardscope import layout, program
from shardscope.arrays.shards import describe_holders

MODEL = MESHES[0]


class Tied(nnx.Module):
    """A Module that holds a layer twice, and itself."""

    def __init__(self) -> None:
        self.first = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
        self.second = self.first
        self.me = self


class Everything(nnx.Module):
    """A Module with a list of layers, a key, a counter and an array."""

    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.layers = nnx.List([nnx.Linear(2, 3, rngs=rngs)])
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.bare = nnx.data(jnp.ones(3))


BIASED = nnx.Linear(2, 3, rngs=nnx.Rngs(0))


@given(placed())
def test_layout_agrees_with_jax(array: jax.ShapeDtypeStruct) -> None:
    """layout() gives the shapes, devices and bytes that JAX gives."""
    (leaf,) = layout(array)
    shard = array.sharding.shard_shape(array.shape)
    each = int(np.prod(shard)) * array.dtype.itemsize

    assert leaf.shape == array.shape
    assert leaf.dtype == array.dtype.name
    assert leaf.shard_shape == shard
    assert set(leaf.devices) == array.sharding.device_set
    assert leaf.bytes_per_device == each
    assert leaf.bytes == 8 * each
    assert eval(leaf.where) == array.sharding.spec
    assert not leaf.where.endswith(",)")


@given(TREES)
def test_layout_has_a_row_for_each_array(pair: Pair) -> None:
    """layout() names arrays as JAX does, and counts their buffers."""
    tree, plain = pair
    table = layout(tree)
    leaves = jax.tree_util.tree_leaves_with_path(plain)
    held: Counter[jax.Device] = Counter()
    for _, array in leaves:
        for shard in array.addressable_shards:
            held[shard.device] += shard.data.nbytes

    assert [(leaf.path, leaf.shape, leaf.sharding) for leaf in table] == [
        (
            jax.tree_util.keystr(path, simple=True, separator="."),
            array.shape,
            array.sharding,
        )
        for path, array in leaves
    ]
    assert table.bytes_on == held
    assert table.bytes == held.total()


def test_bytes_of_each_device() -> None:
    """layout() adds up by device, and gives the most that one holds."""
    on_all = jax.device_put(jnp.ones(8), NamedSharding(MODEL, P()))
    table = layout({"all": on_all, "one": jnp.ones(4)})

    assert table.bytes_on[jax.devices()[0]] == 48
    assert table.bytes_on[jax.devices()[7]] == 32
    assert table.bytes_per_device == 48
    assert table.bytes == 48 + 7 * 32
    assert "at most 48" in repr(table)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (Tied(), ["first.bias", "first.kernel"]),
        ([Tied(), 1], ["0.first.bias", "0.first.kernel", "1"]),
        (
            Everything(),
            [
                "bare",
                "dropout.rngs.count",
                "dropout.rngs.key",
                "layers.0.bias",
                "layers.0.kernel",
            ],
        ),
        (Everything().layers[0].kernel, [""]),
        (
            {"again": BIASED.bias, "model": BIASED},
            ["again", "model.kernel"],
        ),
    ],
)
def test_paths_in_a_module(tree: Any, expected: list[str]) -> None:
    """layout() reports each Variable once, and bare arrays too."""
    assert [leaf.path for leaf in layout(tree)] == expected


def test_a_key_and_an_optimizer() -> None:
    """layout() reports a key with its bytes, and optimizer state."""
    model = Everything()
    optimizer = nnx.Optimizer(model, optax.sgd(0.1, 0.9), wrt=nnx.Param)
    momentum = "opt_state.0.trace.layers.0.kernel"
    key = layout(model)[2]

    assert (key.dtype, key.shape, key.bytes) == ("key<fry>", (), 8)
    assert momentum in {leaf.path for leaf in layout(optimizer)}


def test_an_unreduced_sum() -> None:
    """layout() shows in a spec that devices hold the parts of a sum."""
    mesh = jax.make_mesh((8,), ("model",), (AxisType.Explicit,))
    x = jax.device_put(jnp.ones(8), NamedSharding(mesh, P("model")))
    total = NamedSharding(mesh, P(unreduced={"model"}))
    with jax.set_mesh(mesh):
        seen = layout(jnp.einsum("a,a->", x, x, out_sharding=total))
    (leaf,) = seen

    assert leaf.where == "P(unreduced={'model'})"
    assert leaf.bytes == 8 * 4
    assert "P(unreduced={'model'}" in repr(seen)
    reduced = layout(jax.device_put(jnp.ones(()), NamedSharding(mesh, P())))
    with pytest.raises(AssertionError, match="not reduced over model"):
        seen.match(reduced)


@pytest.mark.skipif(
    sys.version_info < (3, 12),
    reason="Python 3.11 limits how deep JAX itself flattens a tree",
)
def test_a_tree_that_is_nested_deep() -> None:
    """layout() follows a tree as deep as JAX does."""
    tree: Any = jnp.ones(3)
    for _ in range(1500):
        tree = [tree]

    assert layout(tree)[0].path == ".".join("0" * 1500)


def test_what_is_on_no_device() -> None:
    """layout() counts no bytes for NumPy, numbers and abstract shapes."""
    abstract = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    table = layout({"abstract": abstract, "host": np.ones(3), "number": 1})

    assert [leaf.where for leaf in table] == ["not on a device"] * 3
    assert [leaf.shard_shape for leaf in table] == [None] * 3
    assert table.bytes == table.bytes_per_device == 0
    assert table.bytes_on == {}
    assert repr(layout({})).splitlines()[1].startswith("0 devices")


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [("int4", 4), ("uint4", 4), ("int2", 2), ("float4_e2m1fn", 4)],
)
def test_types_below_a_byte(dtype: str, bits: int) -> None:
    """layout() and program() count them packed, as XLA does."""
    columns = NamedSharding(MESHES[1], P(None, "model"))
    x = jax.device_put(jnp.ones((512, 1024), dtype), columns)
    seen = program(lambda x: x.astype(jnp.float32).sum(), x)
    size = 512 * 1024 // 4 * bits // 8

    assert layout(x).bytes_per_device == size
    assert seen.argument_bytes == {"x": seen.memory.arguments}
    assert seen.memory.arguments == size
    assert layout(jnp.ones((3, 3), dtype)).bytes == -(-9 * bits // 8)


def test_the_metadata_of_a_checkpoint(tmp_path: Path) -> None:
    """layout() shows how arrays were sharded when they were saved."""
    specs = {"kernel": P(None, "model"), "moments": P(("data", "model"))}
    tree = {
        name: jax.device_put(
            jnp.ones((8, 16)), NamedSharding(MESHES[1], spec)
        )
        for name, spec in specs.items()
    }
    with ocp.StandardCheckpointer() as saver:
        saver.save(tmp_path / "saved", tree | {"step": jnp.zeros(())})
        saver.wait_until_finished()
        saved = saver.metadata(tmp_path / "saved")
    seen = layout(saved.item_metadata)

    for name, spec in specs.items():
        assert seen[name].where == str(spec).replace(",)", ")")
        assert seen[name].shard_shape == layout(tree)[name].shard_shape
    assert seen["step"].where == "not on a device"
    with pytest.raises(TypeError, match="is a StepMetadata") as caught:
        layout(saved)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("first", [0, 7])
def test_the_result_of_a_callback(first: int) -> None:
    """Only one device has it, although JAX says that all do."""
    devices = jax.devices() if first == 0 else jax.devices()[::-1]
    mesh = Mesh(np.reshape(devices, (2, 4)), ("data", "model"))
    rows = NamedSharding(mesh, P("data"))
    x = jax.device_put(jnp.ones((8, 4)), rows)

    def double(x: jax.Array) -> jax.Array:
        y: jax.Array = jax.pure_callback(lambda x: 2 * np.asarray(x), x, x)
        return y

    y = jax.jit(double)(x)
    (finding,) = layout({"y": y}).findings()
    held = {
        shard.device.id: float(shard.data.sum())
        for shard in y.addressable_shards
    }

    assert y.is_fully_replicated
    assert held == dict.fromkeys(range(8), 0.0) | {first: 64.0}
    assert layout(y)[0].where == f"device {first} alone"
    assert describe_holders(y.sharding, y.shape) == [
        f"  device {first}: [0:8, 0:4]"
    ]
    assert "a call or device_put may take them" in finding.why
    assert str(finding).startswith(f"y: device {first} alone has its")
    with pytest.raises(TypeError, match="GSPMDSharding"):
        jax.jit(jnp.sum)(y)
    copied = jax.device_put(y, NamedSharding(mesh, P()))
    shards = NamedSharding(mesh, P())
    taken = jax.jit(lambda y: 1 * y, in_shardings=shards)(y)
    for each in (copied, taken):
        sums = sorted(float(x.data.sum()) for x in each.addressable_shards)
        assert sums == [*[0.0] * 7, 64.0]

    def constrained(x: jax.Array) -> jax.Array:
        return jax.lax.with_sharding_constraint(double(x), rows)

    assert layout(jax.jit(constrained)(x)).findings() == ()


def test_the_table_as_html() -> None:
    """A TreeLayout is an HTML table in which names are escaped."""
    page = layout({"<b>": jnp.ones(2)})._repr_html_()

    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert page.count('<th scope="col">') == 6
    assert page.count("<tr>") == 3


@pytest.mark.parametrize("leaf", ["words", P("model"), object()])
def test_a_leaf_that_is_not_an_array(leaf: object) -> None:
    """layout() refuses it, with its path and type."""
    message = f"the leaf at 'here' is a {type(leaf).__name__}"

    with pytest.raises(TypeError, match=message):
        layout({"here": leaf})


def test_a_traced_array() -> None:
    """layout() refuses an array inside of jit."""
    with pytest.raises(TypeError, match="'bias' is being traced"):
        jax.jit(lambda model: layout(model).bytes)(BIASED)


def test_a_sharding_that_does_not_divide_the_shape() -> None:
    """layout() passes on JAX's error, with the path of the array."""
    sharding = NamedSharding(MODEL, P("model"))
    ten = jax.ShapeDtypeStruct((10,), jnp.float32, sharding=sharding)

    with pytest.raises(ValueError, match="dimension size is 10") as caught:
        layout({"ten": ten})

    assert caught.value.__notes__ == ["This is the array at 'ten'."]


@given(placed())
def test_an_abstract_mesh(array: jax.ShapeDtypeStruct) -> None:
    """layout() of an abstract mesh agrees with that of its devices."""
    sharding = array.sharding
    on_devices = layout(array)
    on_none = layout(
        jax.ShapeDtypeStruct(
            array.shape,
            array.dtype,
            sharding=NamedSharding(
                sharding.mesh.abstract_mesh, sharding.spec
            ),
        )
    )

    assert repr(on_none) == repr(on_devices)
    assert on_none[0].devices == tuple(range(8))
    assert on_none.bytes_per_device == on_devices.bytes_per_device


def test_a_plan_for_more_devices_than_there_are() -> None:
    """layout() takes what nnx.eval_shape gives, and any mesh."""
    mesh = AbstractMesh((16, 32), ("data", "model"), (AxisType.Auto,) * 2)
    sharding = NamedSharding(mesh, P("data", "model"))
    table = layout(
        {
            "w": jax.ShapeDtypeStruct(
                (64, 64), jnp.float32, sharding=sharding
            )
        }
    )
    init = nnx.initializers.lecun_normal()
    columns = nnx.with_partitioning(init, (None, "model"))
    with jax.set_mesh(MESHES[1]):
        model = nnx.eval_shape(
            lambda: nnx.Linear(16, 8, kernel_init=columns, rngs=nnx.Rngs(0))
        )

    assert (table.bytes_per_device, table.bytes) == (4 * 2 * 4, 64 * 64 * 4)
    assert "512 devices" in repr(table)
    assert layout(model)[1].bytes_per_device == 16 * 2 * 4
    assert layout(jax.typeof(jnp.ones(3)))[0].where == "not on a device"


def test_an_array_that_is_held_twice() -> None:
    """layout() adds an array up once, however many Variables hold it."""
    sharding = NamedSharding(MESHES[1], P("data", "model"))
    x = jax.device_put(jnp.ones((16, 8)), sharding)
    model = nnx.Linear(4, 4, rngs=nnx.Rngs(0))
    twins = layout({"clone": nnx.clone(model), "model": model})

    table = layout({"a": x, "b": x, "copy": x.copy()})

    assert [leaf.same_as for leaf in table] == [None, "a", None]
    assert table.bytes == 2 * sum(
        shard.data.nbytes for shard in x.addressable_shards
    )
    (row,) = (x for x in repr(table).splitlines() if x.startswith("b "))
    assert row.endswith("same as a")
    assert table["b"].same_as == "a"
    assert table[1:].bytes == table.bytes
    assert table.select("b").bytes == table["a"].bytes
    assert twins.bytes == layout(model).bytes == 80


def test_a_part_of_what_is_rolled_up() -> None:
    """A slice counts an array once, wherever the first of it was."""
    one, *layers = (jnp.full(100, number) for number in range(4))
    tree = {"a": one, "layers": layers, "tied": layers[0], "z": one}
    rolled = layout(tree).rolled_up()
    part = rolled[1:]

    assert [leaf.repeats for leaf in rolled] == [1, 3, 1, 1]
    assert [leaf.same_as for leaf in part] == [None, "layers.0", None]
    assert part.bytes == rolled.bytes == 4 * 400


def test_an_axis_that_is_left_to_the_compiler() -> None:
    """layout() counts an unconstrained axis as whole."""
    sharding = NamedSharding(MODEL, P(P.UNCONSTRAINED, "model"))
    (leaf,) = table = layout(
        jax.ShapeDtypeStruct((16, 8), "float32", sharding=sharding)
    )

    assert leaf.shard_shape == sharding.shard_shape((16, 8))
    assert "P(UNCONSTRAINED, 'model')" in repr(table)


def test_an_array_that_was_donated() -> None:
    """layout() counts no bytes for an array that was deleted."""
    sharding = NamedSharding(MODEL, P("model"))
    x = jax.device_put(jnp.ones(8), sharding)
    y = jax.jit(jnp.negative, donate_argnums=0)(x)
    table = layout({"x": x, "y": y})

    assert x.is_deleted()
    assert [leaf.where for leaf in table] == ["deleted", "P('model')"]
    assert table.bytes == 8 * 4
