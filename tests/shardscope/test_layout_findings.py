"""What layout() finds wrong, selects, saves and compares."""

import json
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
import pytest
from flax import nnx
from jax.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec as P,
    SingleDeviceSharding,
)
from strategies import MESHES

from shardscope import TreeLayout, layout

GRID = MESHES[1]
EXPLICIT = GRID.update(axis_types=(AxisType.Explicit,) * 2)
COLUMNS, ROWS, WHOLE = (
    P(None, "model"),
    P("model"),
    P(),
)


def array(
    shape: tuple[int, ...],
    spec: P,
    dtype: str = "float32",
    mesh: Any = GRID,
) -> Any:
    """Make an abstract array with a sharding."""
    return jax.ShapeDtypeStruct(
        shape, dtype, sharding=NamedSharding(mesh, spec)
    )


def model(**other: Any) -> dict[str, Any]:
    """Make four layers of two kernels; ``other`` replaces kernels."""
    return {
        "layers": [
            {
                name: {"kernel": other.get(f"{name}{layer}", kernel)}
                for name, kernel in (
                    ("up", array((256, 512), COLUMNS)),
                    ("down", array((512, 256), ROWS)),
                )
            }
            for layer in range(4)
        ]
    }


def found(tree: Any) -> dict[str, tuple[str, int]]:
    """Give what layout finds, by path."""
    return {
        path: (f.rule, f.bytes)
        for f in layout(tree).findings()
        for path in f.paths
    }


def test_nothing_is_wrong_with_a_good_model() -> None:
    """No rule speaks of a model that is sharded alike in all layers."""
    assert layout(model()).findings() == ()
    assert "wrong" not in repr(layout(model()))


def test_what_is_replicated_alone() -> None:
    """A kernel that stays whole costs what sharding would save."""
    size = 256 * 512 * 4
    whole = model(up2=array((256, 512), WHOLE))
    seen = layout(whole)

    assert ("replicated", size - size // 4) in found(whole).values()
    assert "layers.2.up.kernel: replicated, while 7 others" in repr(seen)
    # All of them are: no one knows what is wrong with one.
    assert found({"a": array((512, 512), WHOLE)}) == {}


def test_what_is_whole_and_not_replicated() -> None:
    """Sums that are not reduced, and arrays in the memory of hosts."""
    unreduced = P(None, None, unreduced={"model"})
    for sharding in (
        NamedSharding(EXPLICIT, unreduced),
        NamedSharding(GRID, P(), memory_kind="pinned_host"),
    ):
        sharded = array((512, 512), ROWS, mesh=sharding.mesh)
        whole = jax.ShapeDtypeStruct(
            (512, 512), sharded.dtype, sharding=sharding
        )
        assert found({"a": {"w": whole}, "b": {"w": sharded}}) == {}


def test_dense_layers_beside_experts() -> None:
    """Where experts are divided, the rest may be replicated on purpose."""
    rest = {"embedding": array((4096, 512), WHOLE)}
    experts = {"up": array((8, 512, 2048), ROWS)}

    assert found(rest | experts) == {}
    stacked = {"up": array((8, 512, 2048), P(None, None, "model"))}
    assert found(rest | stacked)["embedding"][0] == "replicated"


def test_two_arrays_with_one_path() -> None:
    """A file has an entry for each path, so it can't have both."""
    table = layout({"a": {"b": jnp.ones(2)}, "a.b": jnp.ones(3)})

    assert len(table) == 2
    with pytest.raises(ValueError, match="2 arrays have the path"):
        table.match(table)


def test_what_is_replicated_and_takes_the_memory() -> None:
    """A large part of a device's bytes is named, whatever its name is."""
    rest = {f"router_{i}": array((16, 512, 64), WHOLE) for i in range(9)}
    sharded = {"embedding": array((8192, 8192), ROWS)}
    size = 9 * 16 * 512 * 64 * 4

    assert found(rest | sharded) == {
        "router_*": ("replicated", size - size // 4)
    }
    # A router of one layer takes less than a twentieth.
    assert found({"router": rest["router_0"]} | sharded) == {}
    # With data parallelism, the batch alone is sharded.
    assert found(rest | {"batch": array((512, 512), ROWS)}) == {}


def test_what_is_sharded_otherwise_than_in_other_layers() -> None:
    """A layer with another spec is named, and what it should be."""
    odd = model(down1=array((512, 256), COLUMNS))
    (finding,) = layout(odd).findings()

    assert finding.rule == "other_axes"
    assert finding.path == "layers.1.down.kernel"
    assert "while 3 of 4 at layers.*.down.kernel are P('model')" in str(
        finding
    )
    assert layout(odd).findings(ignore=["other_axes"]) == ()
    # The same, spelled in another way.
    same = model(down1=array((512, 256), P(("model",), None)))
    assert layout(same).findings() == ()


RIGHT: dict[str, dict[str, Any]] = {
    "the rows of a batch, data parallel": {
        "tokens": array((256, 4096), P(("data", "model"))),
        "mask": array((256, 4096), P(("data", "model"))),
    },
    "kernels in the order (out, in), column parallel": {
        "query": {"weight": array((256, 1024), P("model"))},
        "out": {"weight": array((1024, 256), P(None, "model"))},
    },
    "few key-value heads": {"k": {"kernel": array((4096, 256), COLUMNS)}},
    "ZeRO-1": {
        "params": {"kernel": array((512, 512), COLUMNS)},
        "opt_state": {
            "mu": {"kernel": array((512, 512), P("data", "model"))},
            "nu": {"kernel": array((512, 512), P("data", "model"))},
        },
    },
    "ZeRO-1 beside replicated parameters": {
        "params": {"kernel": array((512, 512), WHOLE)},
        "opt_state": {"mu": {"kernel": array((512, 512), P("data"))}},
    },
    "ZeRO-1 of bfloat16 parameters": {
        "params": {"kernel": array((512, 512), COLUMNS, "bfloat16")},
        "opt_state": {
            "mu": {"kernel": array((512, 512), P("data", "model"))}
        },
    },
    "ZeRO-1 by another name": {
        "params": {"kernel": array((512, 512), WHOLE)},
        "opt": {"trace": {"kernel": array((512, 512), P("data"))}},
    },
}


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_wrong_with_right_layouts(name: str) -> None:
    """No rule speaks of layouts that people choose on purpose."""
    assert layout(RIGHT[name]).findings() == ()


def test_optimizer_state_and_its_parameter() -> None:
    """Moments that were made before the model was placed are named."""

    def build() -> nnx.Linear:
        return nnx.Linear(256, 512, use_bias=False, rngs=nnx.Rngs(0))

    late, early = build(), build()
    state = nnx.Optimizer(late, optax.adam(1e-3), wrt=nnx.Param)
    columns = NamedSharding(GRID, COLUMNS)
    for linear in (late, early):
        linear.kernel.set_value(jax.device_put(linear.kernel[...], columns))
    right = nnx.Optimizer(early, optax.adam(1e-3), wrt=nnx.Param)
    rules = {
        path: rule
        for path, (rule, _) in found({"m": late, "o": state}).items()
        if "kernel" in path
    }

    assert rules.keys() == {
        "o.opt_state.0.mu.kernel",
        "o.opt_state.0.nu.kernel",
    }
    assert "kernel" not in str(
        [path for path in found({"m": early, "o": right})]
    )


def test_optimizer_state_beside_a_moving_average() -> None:
    """A moment may be laid out as any array of its name."""
    tree = {
        "ema": {"kernel": array((512, 512), WHOLE)},
        "params": {"kernel": array((512, 512), COLUMNS)},
        "opt_state": {"mu": {"kernel": array((512, 512), COLUMNS)}},
    }
    rows = {"mu": {"kernel": array((512, 512), P("model"))}}

    assert "opt_state.mu.kernel" not in found(tree)
    assert "opt_state.mu.kernel" in found({**tree, "opt_state": rows})


def test_optimizer_state_that_is_replicated() -> None:
    """One finding is enough, and the other kernel is counted as one."""
    tree = {
        "kernel": array((512, 512), COLUMNS),
        "opt_state": {"mu": {"kernel": array((512, 512), WHOLE)}},
    }

    (finding,) = layout(tree).findings()
    assert finding.rule == "optimizer_state"
    (finding,) = layout(tree).findings(ignore=["optimizer_state"])
    assert "while 1 other named 'kernel' is sharded" in finding.why


def test_one_finding_for_arrays_alike() -> None:
    """Arrays that are wrong in one way are one finding, however named."""
    moments = {f"w{i}": {"kernel": jnp.ones((8, i + 1))} for i in range(80)}
    tree = {
        "opt": {"mu": moments, "nu": moments | {"late": jnp.ones(4)}},
        "model": array((8, 8), COLUMNS),
    }
    seen = layout(tree)
    (finding,) = seen.findings()

    assert [finding.rule, finding.path] == ["one_device", "opt.*"]
    assert finding.arrays == 81
    assert finding.bytes == seen[1:].bytes
    assert str(finding).startswith("81 arrays at opt.*: on one device")
    assert "more: see" not in repr(seen)
    assert repr(seen).startswith("Looks wrong\n  81 arrays")
    few = {**tree, "opt": {"a": jnp.ones(3), "b": jnp.ones(5)}}
    assert "\n  opt.b, opt.a: on one device" in repr(layout(few))


def test_one_device_among_many() -> None:
    """An array on one device beside a mesh is copied, or an error."""
    tree = {"a": array((8, 8), COLUMNS), "b": jnp.ones(3)}

    assert found(tree) == {"b": ("one_device", 12)}
    assert found({"b": jnp.ones(3)}) == {}
    said = " ".join(repr(layout(tree)).split())
    assert "a call with both has to copy first" in said
    assert "(12 bytes held on one device)" in said
    words = "a call with both raises an error unless in_shardings replicate"
    tree["b"] = jax.device_put(tree["b"], jax.devices()[0])
    assert words in " ".join(repr(layout(tree)).split())
    tree["b"] = jax.ShapeDtypeStruct(
        (3,), "float32", sharding=SingleDeviceSharding(jax.devices()[0])
    )
    assert words in " ".join(repr(layout(tree)).split())


def test_what_a_call_does_with_one_device_among_many() -> None:
    """A committed array is an error, unless in_shardings replicates it."""
    columns, whole = (
        NamedSharding(GRID, spec) for spec in (COLUMNS, WHOLE)
    )
    kernel = jax.device_put(jnp.ones((8, 8)), columns)
    for shape, reported in (((3,), True), ((), False)):
        one = jax.device_put(jnp.ones(shape), jax.devices()[0])
        add = jax.jit(lambda kernel, one: kernel.sum() + one.sum())
        copying = jax.jit(add, in_shardings=(columns, whole))

        assert bool(found({"kernel": kernel, "one": one})) == reported
        with pytest.raises(ValueError, match="incompatible devices"):
            add(kernel, one)
        assert copying(kernel, one) == 64 + one.size


def auto(devices: Any, *names: str) -> Mesh:
    """Make a mesh of Auto axes."""
    return Mesh(devices, names, axis_types=(AxisType.Auto,) * len(names))


DEVICES = GRID.devices
ORDER = "the same devices in another order"
# Meshes, and what keeps arrays on them from those on GRID.
OTHERS = {
    "other names": (auto(DEVICES, "x", "y"), None),
    "other sizes": (auto(DEVICES.reshape(4, 2), "x", "y"), None),
    "one axis": (auto(DEVICES.reshape(8), "x"), None),
    "the first four": (auto(DEVICES[0], "x"), "other devices"),
    "one device": (auto(DEVICES[0, :1], "x"), "other devices"),
    "reversed": (auto(DEVICES[::-1, ::-1], "x", "y"), ORDER),
    "transposed": (auto(DEVICES.T, "x", "y"), ORDER),
    "Explicit axes": (EXPLICIT, "other axes, or types of axes,"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_arrays_on_several_meshes(name: str) -> None:
    """What jax refuses to take in one call is found, and nothing else."""
    mesh, what = OTHERS[name]
    x = jnp.ones((8, 8))
    here = jax.device_put(x, NamedSharding(GRID, COLUMNS))
    there = jax.device_put(x, NamedSharding(mesh, P(mesh.axis_names[0])))
    tree = {"a": [here, here + 1, jnp.float32(1)], "b": there}
    rules = ("one_device", "replicated")
    findings = layout(tree).findings(ignore=rules)
    add = jax.jit(lambda tree: tree["a"][0] + tree["b"])

    if what is None:
        assert findings == ()
        assert add(tree).shape == (8, 8)
        return
    (finding,) = findings
    assert [finding.rule, finding.path] == ["several_meshes", "b"]
    assert finding.why.startswith(f"on a mesh of {what} than 2 others: ")
    with pytest.raises(ValueError, match=finding.why.split("'")[1]):
        add(tree)
    tree["b"] = jax.device_put(there, here.sharding)
    assert layout(tree).findings(ignore=rules) == ()
    assert add(tree).shape == (8, 8)


def test_explicit_axes_of_other_names() -> None:
    """They never meet in an operation, though their devices are alike."""
    named = jax.make_mesh((2, 4), ("x", "y"), devices=DEVICES.flat)
    named = named.update(axis_types=EXPLICIT.axis_types)
    one, other = (
        jax.device_put(jnp.ones(8), NamedSharding(mesh, P()))
        for mesh in (EXPLICIT, named)
    )

    assert found([one, other]) == {"1": ("several_meshes", 32)}
    (finding,) = layout({"here": one, "there": other}).findings()
    assert "types of axes, than here: an operation on both" in finding.why
    assert found([one, one + 1]) == {}
    with pytest.raises(ValueError, match="Mesh for all inputs should be"):
        one + other


def test_abstract_meshes_in_a_target(tmp_path: Path) -> None:
    """What Orbax can't restore is named, unless all of it may be a plan."""
    plan = AbstractMesh((2, 4), ("data", "model"))
    here, there, planned = (
        array((8, 8), COLUMNS, mesh=each)
        for each in (GRID, GRID.abstract_mesh, plan)
    )
    path = tmp_path / "saved"
    # One array, so that Orbax reads no other when it raises.
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, {"b": jnp.ones((8, 8))})
        checkpointer.wait_until_finished()
        with pytest.raises(ValueError, match="not implemented for `jax"):
            checkpointer.restore(path, {"b": there})
        restored = checkpointer.restore(path, {"b": here})

    assert found({"a": here, "b": there}) == {"b": ("abstract_mesh", 64)}
    for right in (
        {"a": here, "b": here},
        {"a": there, "b": there},
        # As arguments of a call, they are right.
        {"a": there, **restored},
        # As in the metadata of a checkpoint.
        {"a": here, "b": planned},
        {"a": there, "b": planned},
    ):
        assert found(right) == {}


def test_an_unknown_rule() -> None:
    """A misspelled rule is an error that lists the rules."""
    with pytest.raises(
        ValueError, match=r"Unknown rule 'replicate'.*one_dev"
    ):
        layout(model()).findings(ignore=["replicate"])


def test_a_large_layout_is_rolled_up() -> None:
    """Layers that repeat are one row, and the table stays short."""
    tree = {"layers": [model()["layers"][0] for _ in range(500)]}
    tree["odd"] = [
        {f"w{i}": array((8, 8 * i), COLUMNS)} for i in range(1, 60)
    ]
    seen = layout(tree)
    lines = repr(seen).splitlines()

    assert any(
        line.startswith("layers.*.up.kernel ×500 ") for line in lines
    )
    assert len(lines) < 45
    assert len(seen._repr_html_()) < 20_000
    assert seen.rolled_up().bytes == seen.bytes
    assert seen.bytes == sum(leaf.bytes for leaf in seen)
    assert seen.by_size()[0].bytes == max(leaf.bytes for leaf in seen)


def test_numbers_at_the_end_of_names() -> None:
    """Linen numbers its layers so; one that differs is named too."""
    kernels = [array((256, 512), COLUMNS)] * 40
    kernels[7] = array((256, 512), ROWS)
    tree = {f"layer_{i}": {"w_2": x} for i, x in enumerate(kernels)}
    seen = layout(tree)

    assert [x.path for x in seen.rolled_up()] == [
        "layer_*.w_2",
        "layer_7.w_2",
    ]
    assert list(seen.rolled_up().rolled_up()) == list(seen.rolled_up())
    assert [f.path for f in seen.findings()] == ["layer_7.w_2"]


@pytest.mark.parametrize("columns", [66, 80, 100])
def test_a_table_keeps_the_width_of_the_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths lose their start, and dtype and shape always stay."""
    monkeypatch.setenv("COLUMNS", str(columns))
    tree = {"a_long_name_of_a_module": {"another_one": model()}}
    lines = repr(layout(tree)).splitlines()
    short = repr(layout({"w": jnp.ones(2)})).splitlines()

    assert max(map(len, lines)) <= columns
    assert any("kernel" in line for line in lines)
    names = ["path", "array", "spec", "bytes each"]
    if columns >= 100:
        names[3:] = ["each device", "bytes each", "bytes in all"]
    for head in (lines[0], short[0]):
        assert re.split(r" {2,}", head) == names


def test_select_and_slices() -> None:
    """Patterns and slices give layouts, and a path an array."""
    seen = layout(model())
    ups = seen.select("layers.*.up.kernel")

    assert [type(ups), len(ups)] == [TreeLayout, 4]
    assert [type(seen[:2]), len(seen[:2])] == [TreeLayout, 2]
    assert seen["layers.3.up.kernel"] == ups[3]
    with pytest.raises(KeyError, match=r"No array at 'layers.9.up"):
        seen["layers.9.up.kernel"]


def test_a_saved_layout(tmp_path: Path) -> None:
    """match() accepts the same layout, and names what differs."""
    path = tmp_path / "layout.json"
    layout(model()).save(path)
    spelled = model(down1=array((512, 256), P(("model",), None)))
    odd = model(down1=array((512, 256), COLUMNS), up0=None)

    assert layout(spelled).match(path).match(layout(model()))
    with pytest.raises(AssertionError) as caught:
        layout(odd).match(path)
    assert str(caught.value).splitlines() == [
        f"2 differences from {path}:",
        "gone: layers.0.up.kernel, float32[256,512], P(None, 'model'), a "
        "mesh of data=2, model=4, 131,072 bytes on a device",
        "changed: layers.1.down.kernel: P('model') -> P(None, 'model')",
        f"If this is intended, delete {path} and write it again: "
        f"layout(model).save({str(path)!r})",
    ]
    with pytest.raises(FileExistsError):
        layout(odd).save(path)


def test_the_difference_of_layouts() -> None:
    """Layers that differ alike share a line."""
    rows = layout({"layers": [array((256, 512), ROWS)] * 4})
    whole = layout({"layers": [array((256, 512), WHOLE)] * 4})

    assert repr(whole - rows) == (
        "grown: layers.* ×4: P('model') -> P(), 131,072 -> 524,288 bytes "
        "(+300%) on a device each"
    )
    assert [each.part for each in (whole - rows).changes] == ["array"]
    assert not rows - rows


@pytest.mark.parametrize(
    ("sizes", "names", "same"),
    [
        ((4, 2), ("model", "data"), True),
        ((4, 2), ("data", "model"), False),
        ((2, 4, 1), ("data", "model", "pipe"), False),
    ],
)
def test_a_replicated_array_on_another_mesh(
    sizes: tuple[int, ...], names: tuple[str, ...], same: bool
) -> None:
    """match() compares the sizes of all axes, but not their order."""
    mesh = AbstractMesh(sizes, names, (AxisType.Auto,) * len(sizes))
    here, there = (
        layout(array((8,), WHOLE, mesh=each)) for each in (GRID, mesh)
    )

    if same:
        assert here.match(there)
    else:
        with pytest.raises(AssertionError, match="mesh of data=2, model=4"):
            here.match(there)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1]", '{"a": 3}', '{"a": {"type": "float32[]"}}'),
        '{"a": {"type": "float32[]", "spec": []}}',
        '{"a": {"type": "float32[]", "spec": 5}}',
    ],
)
def test_a_broken_file(tmp_path: Path, text: str) -> None:
    """What save() did not write is an error that says how to write it."""
    path = tmp_path / "layout.json"
    path.write_text(text)

    with pytest.raises(ValueError, match=r"TreeLayout\.save wrote.*Pass"):
        layout(model()).match(path)
    assert path.read_text() == text


def test_a_missing_file(tmp_path: Path) -> None:
    """A file that is missing is an error, never a pass."""
    with pytest.raises(FileNotFoundError) as caught:
        layout(model()).match(tmp_path / "layout.json")
    assert "To write it: layout(model).save(" in caught.value.__notes__[0]


def test_an_abstract_mesh_of_512() -> None:
    """A model that is planned has findings and a description too."""
    mesh = AbstractMesh((16, 32), ("data", "model"))
    seen = layout({"w": array((65536, 64), P(None, "model"), mesh=mesh)})

    assert seen.bytes_per_device == 65536 * 2 * 4
    assert seen.findings() == ()
    assert json.loads(json.dumps(seen.to_dict()))["w"]["mesh"] == {
        "data": 16,
        "model": 32,
    }
