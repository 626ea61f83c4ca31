"""What program() and collectives() report of a compiled call."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
from strategies import MESHES

from shardbook import Program, collectives, program
from shardbook._collectives import count_collectives

EIGHT, GRID = MESHES[:2]
AUTO = AxisType.Auto
ONE_COLUMN = jax.make_mesh((8, 1), ("data", "model"), (AUTO, AUTO))
ONE_DEVICE = jax.make_mesh(
    (1,), ("model",), (AUTO,), devices=jax.devices()[:1]
)
PERMUTED = "  %x = f32[8] collective-permute(%y), source_target_pairs="


def place(x: Any, mesh: Mesh, *spec: Any) -> jax.Array:
    """Place an array on a mesh."""
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


def rotate(x: jax.Array, axis: Any) -> jax.Array:
    """Send each block to the next device."""
    size = jax.lax.axis_size(axis)
    pairs = [(i, (i + 1) % size) for i in range(size)]
    return jax.lax.ppermute(x, axis, pairs)


KINDS: dict[str, Callable[[jax.Array, Any], jax.Array]] = {
    "all-gather": lambda x, axis: jax.lax.all_gather(x, axis, tiled=True),
    "all-reduce": jax.lax.psum,
    "all-to-all": lambda x, axis: jax.lax.all_to_all(x, axis, 0, 1),
    "collective-permute": rotate,
    "reduce-scatter": jax.lax.psum_scatter,
}


@pytest.mark.parametrize(
    ("mesh", "axis"),
    [
        (EIGHT, "model"),
        (GRID, "data"),
        (GRID, "model"),
        (GRID, ("data", "model")),
        (ONE_COLUMN, "model"),
        (ONE_DEVICE, "model"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_collectives_of_each_kind(kind: str, mesh: Mesh, axis: Any) -> None:
    """collectives() counts the one of a shard_map, unless it is alone."""
    size = mesh.size if isinstance(axis, tuple) else mesh.shape[axis]
    function = jax.shard_map(
        lambda x: KINDS[kind](x, axis),
        mesh=mesh,
        in_specs=P(),
        out_specs=P(),
        check_vma=False,
    )
    x = jax.ShapeDtypeStruct((size, size), jnp.float32)

    assert collectives(function, x) == ({kind: 1} if size > 1 else {})


@pytest.mark.parametrize(
    ("groups", "count"),
    [
        ("{{0,1},{2,3}}", 1),
        ("{{0},{1}}", 0),
        ("{{0},{1,2}}", 1),
        ("[2,4]<=[8]", 1),
        ("[8,1]<=[8]", 0),
        ("[4,2]<=[2,4]T(1,0)", 1),
        ("mesh['a'=2,'b'=1] {'a','b'}", 1),
        ("mesh['a'=2,'b'=1] {'b'}", 0),
        ("mesh['a'=4], device_ids=([2,2]T(1,0)) {'a':(1)2}", 1),
        ("mesh['a'=4] {'a':(2)1}", 0),
        ("{}", 1),
    ],
)
def test_groups_of_devices(groups: str, count: int) -> None:
    """count_collectives() reads groups in each form that XLA writes."""
    line = f"  %x = f32[8] all-reduce(%y), replica_groups={groups}, to=%z"

    assert sum(count_collectives(line).values()) == count


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("all-gather-start(%y), replica_groups=[1,8]<=[8]", ["all-gather"]),
        ("all-gather-done(%y)", []),
        ("ragged-all-to-all(%y)", ["ragged-all-to-all"]),
        ("collective-broadcast(%y)", ["collective-broadcast"]),
        (
            "collective-permute(%y), source_target_pairs={{0,0},{1,2}}",
            ["collective-permute"],
        ),
        ("collective-permute(%y), source_target_pairs={{0,0},{1,1}}", []),
        ('add(%y), metadata={op_name="f/ all-reduce(y)"}', []),
    ],
)
def test_collectives_in_text(text: str, kinds: list[str]) -> None:
    """count_collectives() counts a -start, and nothing that stays."""
    assert [*count_collectives(f"  %x = f32[8] {text}")] == kinds


def test_what_is_not_an_array_is_bound() -> None:
    """program() traces arrays, and passes on a mesh, numbers, functions."""

    def apply(
        params: dict[str, Any],
        x: jax.Array,
        mesh: Mesh,
        *,
        n: int,
        act: Any,
    ) -> jax.Array:
        y = act(x @ params["w"] * params["scale"]).reshape(n, -1)
        return jax.lax.with_sharding_constraint(y, NamedSharding(mesh, P()))

    w = place(jnp.ones((16, 16)), GRID, "model")
    params = {"scale": 2.0, "w": w}
    seen = program(apply, params, np.ones((4, 16)), GRID, n=2, act=nnx.relu)

    assert seen.collectives == {"all-reduce": 1}
    assert seen.copies == {"[1]": 8 * 4 * 4 * 4}


def test_copies_of_arguments() -> None:
    """program() lists each array that is not where the call wants it."""
    arrays = {
        "host": np.ones((8, 4)),
        "first": jnp.ones(16),
        "placed": place(jnp.ones((4, 8)), GRID, None, "model"),
        "abstract": jax.ShapeDtypeStruct((8,), jnp.float32),
        "unused": jnp.ones(3),
        "key": jax.random.key(0),
        "number": 2.0,
    }

    def function(x: dict[str, Any]) -> Any:
        key = jax.random.key_data(x["key"]).sum() * x["number"]
        total = x["first"].sum() + x["abstract"].sum() + key
        return x["host"] @ x["placed"] + total

    jitted = jax.jit(
        function,
        in_shardings=(
            {name: NamedSharding(GRID, P()) for name in arrays}
            | {"placed": NamedSharding(GRID, P(None, "model"))},
        ),
    )

    assert program(jitted, arrays).copies == {
        "[0]['host']": 8 * 8 * 4 * 4,
        # Device 0 holds the whole of these two already.
        "[0]['first']": 7 * 16 * 4,
        "[0]['key']": 7 * 8,
    }


def test_copies_beside_static_arguments() -> None:
    """program() counts positions as the call does, with what is static."""
    y = place(jnp.ones(8), EIGHT, "model")
    by_number = jax.jit(lambda n, x, mesh, y: x * y, static_argnums=(0, 2))
    by_name = jax.jit(lambda x, n, y: x * y * n, static_argnames="n")

    assert program(by_number, 3, jnp.ones(()), EIGHT, y).copies == {
        "[1]": 7 * 4
    }
    assert program(by_name, y=y, n=3, x=np.ones(8)).copies == {
        "['x']": 8 * 4
    }


def test_a_step_that_updates_a_module() -> None:
    """program() keeps the update of a function that returns nothing."""
    model = nnx.Linear(16, 8, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1, 0.9), wrt=nnx.Param)
    x = place(jnp.ones((8, 16)), EIGHT, "model")

    def step(model: nnx.Linear, optimizer: nnx.Optimizer, x: Any) -> None:
        grads = nnx.grad(lambda model: (model(x) ** 2).mean())(model)
        optimizer.update(model, grads)

    donating = nnx.jit(step, donate_argnums=(0, 1))
    seen = program(step, model, optimizer, x=x)
    again = program(donating, model, optimizer, x)

    assert seen.collectives == again.collectives == {"all-reduce": 1}
    assert seen.copies == again.copies
    assert seen.copies["[0]['kernel']"] == 7 * 16 * 8 * 4
    assert "[1]['opt_state'][0]['trace']['bias']" in seen.copies
    assert seen.memory.donated == 0
    assert again.memory.donated >= 2 * (16 * 8 + 8) * 4


def test_a_module_in_place_of_a_function() -> None:
    """program() refuses a Module, whose arrays would be constants."""
    model = nnx.Linear(2, 2, rngs=nnx.Rngs(0))

    for function in (model, model.__call__):
        with pytest.raises(TypeError, match="takes its Module as an arg"):
            program(function, jnp.ones((1, 2)))


def test_a_module_that_holds_a_layer_twice() -> None:
    """program() lists a shared Variable once, under its first path."""

    class Tied(nnx.Module):
        def __init__(self) -> None:
            self.first = nnx.Linear(4, 4, use_bias=False, rngs=nnx.Rngs(0))
            self.second = self.first

        def __call__(self, x: jax.Array) -> jax.Array:
            return self.second(self.first(x))

    x = place(jnp.ones((8, 4)), EIGHT, "model")

    def apply(model: Tied, x: jax.Array) -> jax.Array:
        return model(x)

    for function in (apply, jax.jit(apply), nnx.jit(apply)):
        copies = program(function, Tied(), x).copies
        assert copies == {"[0]['first']['kernel']": 7 * 4 * 4 * 4}


def test_memory_is_that_of_one_device() -> None:
    """program() adds the temporaries up, and takes off what is donated."""
    x = place(jnp.ones((64, 64)), EIGHT, "model")
    compiled = (
        jax.jit(lambda x: x @ x.T, donate_argnums=0).lower(x).compile()
    )
    stats = compiled.memory_analysis()
    memory = Program.of(compiled.as_text(), stats).memory

    assert memory.arguments == memory.results == 64 * 64 * 4 // 8
    assert memory.donated == memory.results
    assert memory.temporaries >= 64 * 64 * 4
    assert memory.total == memory.arguments + memory.temporaries


def test_a_program_prints_in_60_columns() -> None:
    """A Program is a table, which a long path does not widen."""
    tree = {"long" * 9: {"path" * 9: np.ones(8)}}
    w = place(jnp.ones(8), EIGHT, "model")
    lines = repr(
        program(lambda t, w: jax.tree.map(lambda x: x @ w, t), tree, w)
    ).splitlines()

    assert {len(line) for line in lines} == {60}
    assert lines[-1].startswith("  ...")
    assert lines[-1].split()[-1] == "32"
    assert "  all-reduce" + "1".rjust(48) in lines
    assert repr(program(jnp.sin, jnp.ones(1))).count("  none") == 2
