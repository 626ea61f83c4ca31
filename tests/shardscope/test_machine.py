"""Abstract arguments on a mesh of another machine."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

from shardscope import Machine, layout, machine, program
from shardscope.machines import machine as machines

pytest_plugins = ["pytester"]

EXAMPLE = Path(__file__).with_name("on_a_machine.py")
AUTO = (AxisType.Auto,) * 2
HERE = jax.make_mesh((2, 4), ("data", "model"), AUTO)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Give a machine of the devices of this computer, in other places."""
    monkeypatch.setattr(
        machines, "devices_of", lambda name: jax.devices()[::-1]
    )
    return machine("v5e:2x4", data=4, model=2)


def array(*spec: str) -> jax.Array:
    """Give an array on this computer's mesh."""
    return jax.device_put(np.ones((8, 16)), NamedSharding(HERE, P(*spec)))


def sharding(leaf: Any) -> tuple[Mesh, P]:
    """Give what a placed array has of the machine."""
    assert isinstance(leaf, jax.ShapeDtypeStruct)
    assert isinstance(leaf.sharding, NamedSharding)
    return leaf.sharding.mesh, leaf.sharding.spec


def test_arrays_keep_their_specs(there: Machine) -> None:
    """Arrays without one have no sharding, and the rest stays."""
    tree = {"w": array("model"), "x": np.ones(3), "n": 2}
    placed: dict[str, Any] = there.place(tree)

    assert sharding(placed["w"]) == (there.mesh, P("model"))
    assert placed["w"].shape == (8, 16)
    assert placed["x"].sharding is None
    assert placed["n"] == 2


def test_specs_stand_for_what_is_below_them(there: Machine) -> None:
    """A spec is for a whole tree, and None keeps the arrays' own."""
    tree = {"a": [array(), array()], "b": array("model"), "c": None}
    one: Any = there.place(tree, P("data"))
    some: Any = there.place(tree, {"a": P("data"), "b": None, "c": None})

    assert {sharding(x)[1] for x in jax.tree.leaves(one)} == {P("data")}
    assert sharding(some["a"][1])[1] == P("data")
    assert sharding(some["b"])[1] == P("model")


@pytest.mark.parametrize(
    ("specs", "message"),
    [({"a": P()}, "structure"), (P("expert"), "expert")],
)
def test_specs_that_do_not_fit(
    there: Machine, specs: Any, message: str
) -> None:
    """The error names the axis, or the place in the tree."""
    with pytest.raises(ValueError, match=message):
        there.place({"a": array(), "b": array()}, specs)


class Tied(nnx.Module):
    """Two names of one layer."""

    def __init__(self) -> None:
        self.first = nnx.Linear(16, 16, rngs=nnx.Rngs(0))
        self.second = self.first

    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply the layer twice."""
        return self.second(self.first(x))


def step(model: Tied, optimizer: Any, x: jax.Array) -> jax.Array:
    """Take a step of training."""

    def loss(model: Tied) -> jax.Array:
        return jnp.square(model(x)).mean()

    value, grads = nnx.value_and_grad(loss)(model)
    optimizer.update(model, grads)
    return value


def test_a_module_stays_a_module(there: Machine) -> None:
    """What it shares is shared, and the module given is as it was."""
    model = Tied()
    kernel = NamedSharding(HERE, P(None, "model"))
    model.first.kernel.set_value(
        jax.device_put(model.first.kernel[...], kernel)
    )
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    placed = there.place((model, optimizer, array("data")))
    seen = program(nnx.jit(step, donate_argnums=(0, 1)), *placed)

    assert placed[0].second is placed[0].first
    assert model.first.kernel.sharding == kernel
    assert layout(placed[0])["first.kernel"].shape == (16, 16)
    assert seen.axes == {"data": 4, "model": 2}


def test_the_axes_have_all_devices(there: Machine) -> None:
    """By default one axis does; the type of axes can be chosen."""
    explicit = machine("v5e:2x4", explicit=True, data=8)

    assert machine("v5e:2x4").mesh.shape == {"data": 8}
    assert explicit.mesh.axis_types == (AxisType.Explicit,)
    assert [*there.mesh.devices.flat] != jax.devices()
    with pytest.raises(ValueError, match="8 devices, but data=3, model=2"):
        machine("v5e:2x4", data=3, model=2)


def test_on_a_machine(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test of the guide passes, or is skipped without its compiler."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_it=EXAMPLE.read_text())
    arguments = ("-p", "shardscope.pytest_plugin")
    pytester.runpytest_inprocess(*arguments, "--shardscope-update")
    outcomes = pytester.runpytest_inprocess(*arguments).parseoutcomes()

    assert outcomes in ({"passed": 1}, {"skipped": 1})
