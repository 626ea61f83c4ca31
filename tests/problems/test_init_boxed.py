"""Linen models that are initialized on meshes of all the devices."""

from typing import Any

import jax
import numpy as np
import pytest
from flax import linen as nn
from jax.sharding import Mesh

from shardbook.inputs import dense, mesh_of, normal, normed
from shardbook.problems.init_boxed import init_boxed
from shardscope import program

KEY = jax.random.key(3)
X = np.ones((4, 16), np.float32)


def boxes(tree: Any) -> dict[str, Any]:
    """Give the boxes of a tree by path, and arrays without a box."""
    found = jax.tree.leaves_with_path(
        tree, is_leaf=lambda node: isinstance(node, nn.Partitioned)
    )
    return {
        "/".join(str(key.key) for key in path): leaf for path, leaf in found
    }


def check(
    variables: Any, layer: nn.Module, mesh: Mesh, **shards: Any
) -> None:
    """Compare with an eager init, and with the shards' shapes.

    Args:
        variables: What is tested.
        layer: Its module.
        mesh: The mesh.
        **shards: The shapes of shards, by path with "__" for "/"; other
            arrays must be replicated.
    """
    expected = boxes(layer.init(KEY, X))
    found = boxes(variables)
    assert found.keys() == expected.keys()
    assert {name.replace("__", "/") for name in shards} <= found.keys()
    for path, box in found.items():
        wanted = expected[path]
        assert type(box) is type(wanted) or isinstance(box, jax.Array)
        if isinstance(box, nn.Partitioned):
            assert box.names == wanted.names
            box, wanted = box.value, wanted.value
        shard = shards.get(path.replace("/", "__"), wanted.shape)
        assert {s.data.shape for s in box.addressable_shards} == {shard}
        assert box.devices() == {*mesh.devices.flat}
        assert box.committed
        np.testing.assert_allclose(box, wanted, rtol=1e-5, atol=1e-6)


def test_names_of_mesh_axes(mesh: Mesh) -> None:
    """Names and tuples of names shard; what has no box is replicated."""
    layer = normed(
        dense(32, (None, "model"), ("model",)),
        dense(24, ("model", "data")),
        dense(16, (None, ("data", "model"))),
    )
    data, model = mesh.shape.values()

    check(
        init_boxed(layer, KEY, X, mesh),
        layer,
        mesh,
        params__layers_0__kernel=(16, 32 // model),
        params__layers_0__bias=(32 // model,),
        params__layers_1__kernel=(32 // model, 24 // data),
        params__layers_2__kernel=(24, 16 // (data * model)),
    )


def test_logical_names(mesh: Mesh) -> None:
    """Rules give mesh axes, tuples of them, or None."""
    layer = normed(
        dense(32, ("embed", "mlp"), ("mlp",), logical=True),
        dense(16, ("mlp", "vocab"), logical=True),
        # A mesh axis, whatever the rule for the logical name says.
        dense(8, (None, "data")),
    )
    data, model = mesh.shape.values()
    rules = (
        ("embed", None),
        ("mlp", ("data", "model")),
        ("vocab", None),
        ("data", "model"),
    )

    check(
        init_boxed(layer, KEY, X, mesh, rules),
        layer,
        mesh,
        params__layers_0__kernel=(16, 32 // (data * model)),
        params__layers_0__bias=(32 // (data * model),),
        params__layers_1__kernel=(32 // (data * model), 16),
        params__layers_2__kernel=(16, 8 // data),
    )


def test_rules_have_an_order(mesh: Mesh) -> None:
    """The first rule of a name counts whose mesh axis is still free."""
    layer = dense(32, ("embed", "mlp"), ("mlp",), logical=True)
    data, model = mesh.shape.values()
    rules = [("embed", "model"), ("mlp", "model"), ("mlp", "data")]

    check(
        init_boxed(layer, KEY, X, mesh, rules),
        layer,
        mesh,
        params__kernel=(16 // model, 32 // data),
        params__bias=(32 // model,),
    )


def test_a_stack_of_layers(mesh: Mesh) -> None:
    """The dimension that nn.scan adds has a name, too."""

    class Stack(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            def body(layer: Any, x: Any, _: None) -> tuple[Any, None]:
                return layer(x), None

            scan = nn.scan(
                body,
                variable_axes={"params": 0},
                split_rngs={"params": True},
                length=8,
                metadata_params={nn.PARTITION_NAME: "data"},
            )
            layer = dense(16, (None, "model"))
            y, _ = scan(layer, x, None)
            return y

    data, model = mesh.shape.values()
    stack = Stack()

    check(
        init_boxed(stack, KEY, X, mesh),
        stack,
        mesh,
        params__Dense_0__kernel=(8 // data, 16, 16 // model),
        params__Dense_0__bias=(8, 16),
    )


def test_a_device_needs_memory_for_its_shards(mesh: Mesh) -> None:
    """A program needs its part of what the unsharded program needs."""
    layer, x = dense(512, ("data", "model")), normal(4, 256)

    whole = program(jax.jit(layer.init), KEY, x)
    sharded = program(
        jax.jit(lambda key, x: init_boxed(layer, key, x, mesh)), KEY, x
    )

    part = whole.memory.total / mesh.size
    assert part <= sharded.memory.total <= 1.05 * part
    assert sharded.collectives == {}


def test_nothing_is_made_to_find_the_names(mesh: Mesh) -> None:
    """A layer that is too large for the machine is only traced."""
    seen = []

    def init(*arguments: Any) -> jax.Array:
        made = nn.initializers.zeros_init()(*arguments)
        seen.append(isinstance(made, jax.core.Tracer))
        return made

    init_boxed(nn.Dense(8, kernel_init=init), KEY, X, mesh)

    assert seen
    assert all(seen)


def test_what_is_refused() -> None:
    """Unknown names and indivisible dimensions are ValueErrors."""
    count = jax.device_count()
    mesh = mesh_of(1, count)
    typo = dense(32, (None, "modle"))
    logical = dense(32, ("embed", "model"), logical=True)
    rules = [("embed", None), ("mlp", "model")]

    with pytest.raises(ValueError, match="modle"):
        init_boxed(typo, KEY, X, mesh)
    with pytest.raises(
        ValueError, match=r"no rule for .'model'. of .*kernel"
    ):
        init_boxed(logical, KEY, X, mesh, rules)
    with pytest.raises(ValueError, match="rdw"):
        init_boxed(
            logical, KEY, X, mesh, [("embed", "rdw"), ("model", None)]
        )
    if count > 1:
        indivisible = dense(2 * count - 1, (None, "model"))
        with pytest.raises(ValueError, match="evenly divide"):
            init_boxed(indivisible, KEY, X, mesh)
