"""What layout() says about where arrays lie."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn, nnx
from hypothesis import given
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from placed import MESHES, placed
from trees import TREES, Pair, boxed

from shardbook import layout

MODEL = MESHES[0]


def paths(tree: object) -> list[str]:
    """Give the paths of a tree's arrays."""
    return [leaf.path for leaf in layout(tree)]


@given(placed())
def test_it_says_what_jax_says(array: jax.ShapeDtypeStruct) -> None:
    """Shapes, devices and bytes are those of JAX's own arithmetic."""
    (leaf,) = layout(array)
    shard = array.sharding.shard_shape(array.shape)
    each = int(np.prod(shard)) * array.dtype.itemsize

    assert leaf.shape == array.shape
    assert leaf.dtype == array.dtype.name
    assert leaf.shard_shape == shard
    assert set(leaf.devices) == array.sharding.device_set
    assert leaf.bytes_per_device == each
    assert leaf.bytes == 8 * each
    assert eval(leaf.spec) == array.sharding.spec


@given(TREES)
def test_each_array_of_a_tree_has_a_row(pair: Pair) -> None:
    """Named as JAX names it in a plain tree, with its buffers' bytes."""
    tree, plain = pair
    table = layout(tree)
    leaves = jax.tree_util.tree_leaves_with_path(plain)
    held = Counter()
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


def test_bytes_are_those_that_the_devices_hold() -> None:
    """The figures agree with the buffers of a placed array."""
    for spec in (P(), P("model"), P(None, "model")):
        x = jax.device_put(jnp.ones((16, 8)), NamedSharding(MODEL, spec))
        table = layout({"x": x})
        held = {s.device: s.data.nbytes for s in x.addressable_shards}

        assert table.bytes_on == held
        assert table.bytes == sum(held.values())


def test_a_spec_as_people_write_it() -> None:
    """One name has no trailing comma, and nothing is P()."""
    grid = MESHES[1]

    def spec_of(mesh: jax.sharding.Mesh, *spec: object) -> str:
        sharding = NamedSharding(mesh, P(*spec))
        (leaf,) = layout(
            jax.ShapeDtypeStruct((8, 8), "f4", sharding=sharding)
        )
        return leaf.spec

    assert spec_of(MODEL) == "P()"
    assert spec_of(MODEL, "model") == "P('model')"
    assert spec_of(MODEL, None, "model") == "P(None, 'model')"
    assert spec_of(grid, ("data", "model")) == "P(('data', 'model'))"


def test_devices_are_counted_one_by_one() -> None:
    """With arrays on other devices, the most is told from the sum."""
    on_all = jax.device_put(jnp.ones(8), NamedSharding(MODEL, P()))
    table = layout({"all": on_all, "one": jnp.ones(4)})

    assert table.bytes_on[jax.devices()[0]] == 48
    assert table.bytes_on[jax.devices()[7]] == 32
    assert table.bytes_per_device == 48
    assert table.bytes == 48 + 7 * 32
    assert "at most 48" in repr(table)


def test_a_variable_held_twice_counts_once() -> None:
    """Sharing and cycles in a Module do not count."""

    class Tied(nnx.Module):
        def __init__(self) -> None:
            self.first = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
            self.second = self.first
            self.me = self

    assert paths(Tied()) == ["first.bias", "first.kernel"]
    assert paths([Tied(), jnp.ones(2)]) == [
        "0.first.bias",
        "0.first.kernel",
        "1",
    ]


def test_every_kind_of_state() -> None:
    """Lists, keys, counters, optimizers and bare arrays have a row."""

    class Model(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.layers = nnx.List([nnx.Linear(2, 3, rngs=rngs)])
            self.dropout = nnx.Dropout(0.5, rngs=rngs)
            self.bare = nnx.data(jnp.ones(3))

    model = Model(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1, 0.9), wrt=nnx.Param)
    key = layout(model)[2]

    assert paths(model) == [
        "bare",
        "dropout.rngs.count",
        "dropout.rngs.key",
        "layers.0.bias",
        "layers.0.kernel",
    ]
    assert (key.dtype, key.shape, key.bytes) == ("key<fry>", (), 8)
    assert "opt_state.0.trace.layers.0.kernel" in paths(optimizer)
    assert paths(model.layers[0].kernel) == [""]


def test_linen_variables_with_and_without_boxes() -> None:
    """A box does not show in the path."""
    kernel_init = nn.with_partitioning(
        nn.initializers.ones, (None, "model")
    )
    layer = nn.Dense(4, kernel_init=kernel_init)
    boxed = layer.init(jax.random.key(0), jnp.ones((1, 2)))

    assert paths(boxed) == paths(nn.unbox(boxed))
    assert paths(boxed) == ["params.bias", "params.kernel"]


def test_what_lies_beside_a_module() -> None:
    """It has a row too, whatever it is."""
    model = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    abstract = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    beside = {"box": boxed(jnp.ones(2)), "next": abstract, "step": 1}

    assert paths({"again": model.bias, "model": model, **beside}) == [
        "again",
        "box",
        "model.kernel",
        "next",
        "step",
    ]
    with pytest.raises(TypeError, match="the leaf at '1' is a str"):
        layout([model, "words"])


def test_a_sum_that_is_not_made_yet() -> None:
    """A spec says so where the devices hold the parts of a sum."""
    mesh = jax.make_mesh((8,), ("model",), (AxisType.Explicit,))
    sharding = NamedSharding(mesh, P("model"))
    x = jax.device_put(jnp.ones(8), sharding)
    total = NamedSharding(mesh, P(unreduced={"model"}))
    with jax.set_mesh(mesh):
        (leaf,) = layout(jnp.einsum("a,a->", x, x, out_sharding=total))

    assert leaf.spec.startswith("P(unreduced={'model'}")
    assert leaf.bytes == 8 * 4


def test_what_is_on_no_device() -> None:
    """NumPy arrays, numbers and abstract shapes weigh nothing."""
    abstract = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    table = layout({"abstract": abstract, "host": np.ones(3), "number": 1})

    assert [leaf.spec for leaf in table] == ["not on a device"] * 3
    assert [leaf.shard_shape for leaf in table] == [None] * 3
    assert table.bytes == table.bytes_per_device == 0
    assert table.bytes_on == {}


def test_an_empty_tree() -> None:
    """Nothing is a table without rows."""
    assert len(layout({})) == 0
    assert "0 devices" in repr(layout({}))


def test_the_table_as_text() -> None:
    """Columns line up, numbers to the right, and the sums are last."""
    table = layout(nnx.Linear(16, 128, rngs=nnx.Rngs(0)))

    assert repr(table) == (
        "path      array            spec           each device  "
        "bytes each  bytes in all\n"
        "bias      float32[128]     one device: 0  (128,)       "
        "       512           512\n"
        "kernel    float32[16,128]  one device: 0  (16, 128)    "
        "     8,192         8,192\n"
        "1 device                                               "
        "     8,704         8,704"
    )


def test_the_table_as_html() -> None:
    """It is a table with headings, and names in it are escaped."""
    page = layout({"<b>": jnp.ones(2)})._repr_html_()

    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert page.count('<th scope="col">') == 6
    assert page.count("<tr>") == 3


@pytest.mark.parametrize("leaf", ["words", P("model"), object()])
def test_what_is_no_array_is_refused(leaf: object) -> None:
    """The message names the leaf and what it is."""
    wanted = f"the leaf at 'here' is a {type(leaf).__name__}"

    with pytest.raises(TypeError, match=wanted):
        layout({"here": leaf})


def test_a_traced_array_is_refused() -> None:
    """Inside of jit there is no layout to report."""
    model = nnx.Linear(2, 3, rngs=nnx.Rngs(0))

    with pytest.raises(TypeError, match="'bias' is being traced"):
        jax.jit(lambda model: layout(model).bytes)(model)


def test_an_abstract_array_that_can_not_be_cut() -> None:
    """JAX's error is passed on, with the name of the array."""
    sharding = NamedSharding(MODEL, P("model"))
    ten = jax.ShapeDtypeStruct((10,), jnp.float32, sharding=sharding)

    with pytest.raises(ValueError, match="dimension size is 10") as caught:
        layout({"ten": ten})

    assert caught.value.__notes__ == ["This is the array at 'ten'."]


def test_an_explicit_mesh_is_no_different() -> None:
    """Axis types do not change where the bytes lie."""
    mesh = jax.make_mesh((8,), ("model",), (AxisType.Explicit,))
    x = jax.device_put(
        jnp.ones((4, 8)), NamedSharding(mesh, P(None, "model"))
    )

    assert layout(x)[0].shard_shape == (4, 1)
    assert layout(x)[0].spec == "P(None, 'model')"
