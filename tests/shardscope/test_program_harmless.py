"""program() changes nothing, and finds the step that something wraps."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P
from strategies import MESHES

from shardscope import Program, layout, program

# Newer versions of Flax have another way than sow().
pytestmark = pytest.mark.filterwarnings("ignore:Using 'Module.sow")
EIGHT = MESHES[0]
X = jnp.ones((8, 4))


class Model(nnx.Module):
    """A model with a part of each kind that Flax treats its own way."""

    def __init__(self, tied: bool) -> None:
        rngs = nnx.Rngs(0)
        self.linear = nnx.Linear(4, 4, rngs=rngs)
        self.other = self.linear if tied else nnx.Linear(4, 4, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.without_variables = nnx.Dropout(0.0)
        self.layers = nnx.List([nnx.Linear(4, 4, rngs=rngs)])

    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply them."""
        x = self.dropout(self.other(self.linear(x)))
        self.sow(nnx.Intermediate, "seen", x)
        return self.layers[0](self.without_variables(x))


def train(model: Model, optimizer: nnx.Optimizer, x: jax.Array) -> None:
    """Take a step, in which parameters and counts change."""
    model.train()
    gradients = nnx.grad(lambda model: (model(x) ** 2).mean())(model)
    optimizer.update(model, gradients)
    model.eval()


def fail(model: Model, optimizer: nnx.Optimizer, x: jax.Array) -> None:
    """Change a model in all other ways too, and raise."""
    train(model, optimizer, x)
    nnx.pop(model, nnx.Intermediate)
    model.extra = nnx.Param(x)
    del model.dropout
    model.linear.kernel.set_metadata("name", "other")
    nnx.update(model.layers, jax.tree.map(jnp.sin, nnx.state(model.layers)))
    raise RuntimeError("in the middle")


GRAPH = nnx.jit(train)
Live = tuple[Model, nnx.Optimizer]


def make(tied: bool = True) -> Live:
    """Make a model and its optimizer."""
    model = Model(tied)
    model(X)
    return model, nnx.Optimizer(model, optax.sgd(0.1, 0.9), wrt=nnx.Param)


def parts(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Give the objects that a Module holds, each with its path."""
    children: dict[Any, Any] = {}
    if isinstance(node, nnx.Variable):
        metadata = node.get_metadata()
        children = {"raw value": node.get_raw_value(), **metadata}
    elif isinstance(node, nnx.Pytree):
        children = vars(node)
    elif isinstance(node, tuple | list):
        children = dict(enumerate(node))
    yield path, node
    for name, child in children.items():
        yield from parts(child, f"{path}/{name}")


def require_same(live: Live, before: list[tuple[str, Any]]) -> None:
    """Require the very objects that there were, and that a step runs."""
    after = list(parts(live))

    assert [path for path, _ in after] == [path for path, _ in before]
    assert all(
        now is then
        for (_, now), (_, then) in zip(after, before, strict=True)
    )
    GRAPH(*live, X)


Step = Callable[[Model, nnx.Optimizer, jax.Array], None]
held: dict[str, Any] = {}


class Trainer:
    """What holds a model, and is not a pytree."""

    def __init__(self, step: Step, live: Live) -> None:
        self.step, self.live = step, live

    def run(self, x: jax.Array) -> None:
        """Take a step."""
        self.step(*self.live, x)


def of_a_global(x: jax.Array) -> None:
    """Take a step with the model that a global holds."""
    held["step"](*held["live"], x)


def in_a_global(step: Step, live: Live) -> Any:
    """Have the model in a global that another function names."""
    held.update(step=step, live=live)
    return lambda x: of_a_global(x)


def in_a_closure(step: Step, live: Live) -> Any:
    """Close over the model, two functions deep."""

    def outer(x: jax.Array) -> None:
        def inner(x: jax.Array) -> None:
            step(*live, x)

        inner(x)

    return outer


def in_a_default(step: Step, live: Live) -> Any:
    """Have the model as the default of a parameter."""
    return lambda x, *, live=live: step(*live, x)


WAYS: dict[str, Callable[[Step, Live], Any]] = {
    "global": in_a_global,
    "closure": in_a_closure,
    "default": in_a_default,
    "method": lambda step, live: Trainer(step, live).run,
    "partial of a method": lambda step, live: functools.partial(
        Trainer(step, live).run
    ),
    "under jax.jit": lambda *both: jax.jit(in_a_closure(*both)),
    "without jit": lambda _, live: in_a_closure(train, live),
    "under nnx.jit": lambda *both: nnx.jit(in_a_closure(*both)),
    "partial under jax.jit": lambda step, live: jax.jit(
        functools.partial(step, *live)
    ),
}


JITS: dict[str, Any] = {
    "none": lambda step: step,
    "jax.jit": jax.jit,
    "nnx.jit": nnx.jit,
    "nnx.jit, tree mode": nnx.jit(graph=False),
}
# Flax 0.12.6 splits the arguments of this one as program() can't read.
if version("flax") != "0.12.6":
    JITS["nnx.jit, without graph updates"] = nnx.jit(graph_updates=False)


@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_is_not_an_argument(way: str) -> None:
    """program() puts a model back that a step reaches in another way."""
    live = make()
    before = list(parts(live))

    with pytest.raises(Exception, match="different trace level") as caught:
        program(WAYS[way](GRAPH, live), X)
    require_same(live, before)
    assert "must be one of its arguments" in caught.value.__notes__[-1]


@pytest.mark.parametrize("jit", JITS)
@pytest.mark.parametrize("bind", [False, True])
def test_an_error_in_the_middle(jit: str, bind: bool) -> None:
    """program() leaves Modules as they were if a step raises."""
    live = make(tied="graph" in jit or jit == "nnx.jit")
    before = list(parts(live))
    step, args = JITS[jit](fail), (*live, X)
    if bind:
        step, args = functools.partial(step, *live), (X,)

    with pytest.raises(RuntimeError, match="in the middle"):
        program(step, *args)
    require_same(live, before)


@pytest.mark.parametrize("jit", JITS)
def test_a_step_that_is_traced_to_its_end(jit: str) -> None:
    """program() leaves Modules as they were if a step does not raise."""
    live = make(tied="graph" in jit or jit == "nnx.jit")
    before = list(parts(live))

    program(JITS[jit](train), *live, X)
    require_same(live, before)


@pytest.mark.parametrize("double", [True, False])
def test_new_parameters(double: bool) -> None:
    """program() leaves parameters that a function replaces as they were."""
    live = model, _ = make()
    before = list(parts(live))

    def forward(x: jax.Array) -> jax.Array:
        kernel = 2 * x[:4] if double else X[:4]
        nnx.update(model, {"linear": {"kernel": kernel}})
        return model(x)

    with pytest.raises(Exception, match="different trace level"):
        program(forward, X)
    require_same(live, before)


def test_what_flax_lets_pass() -> None:
    """program() puts back what a function deletes from a Module."""
    live = model, _ = make()
    before = list(parts(live))

    def forward(x: jax.Array) -> jax.Array:
        del model.dropout
        return x + nnx.pop(model, nnx.Intermediate)["seen"][0].sum()

    assert program(forward, X).argument_bytes == {"x": X.nbytes}
    require_same(live, before)


class Lazy(nnx.Module):
    """A Module that remembers what it has computed."""

    def __init__(self) -> None:
        self.linear = nnx.Linear(4, 4, rngs=nnx.Rngs(0))

    @functools.cached_property
    def twice(self) -> jax.Array:
        """The kernel, doubled."""
        return 2 * self.linear.kernel

    def __call__(self, x: jax.Array) -> jax.Array:
        """Multiply by what it remembers."""
        return x @ self.twice


def test_a_model_that_is_only_read() -> None:
    """program() takes a model that is no argument, as constants."""
    model, without_variables = Lazy(), nnx.Dropout(0.0)

    def forward(x: jax.Array) -> jax.Array:
        return nnx.jit(lambda module, x: module(x))(
            without_variables, model(x)
        )

    seen = program(forward, X)

    assert seen.argument_bytes == {"x": X.nbytes}
    assert "twice" not in vars(model)
    assert model(X).shape == without_variables(X).shape == X.shape


def descend(w: jax.Array, x: jax.Array) -> jax.Array:
    """Take a step of gradient descent."""
    return w - jax.grad(lambda w: ((x @ w) ** 2).sum())(w)


def figures(seen: Program) -> Program:
    """Leave out the text, which has the lines that call program()."""
    return replace(seen, text="")


@pytest.mark.parametrize(
    "partial", [functools.partial, jax.tree_util.Partial]
)
def test_a_partial_is_the_call_that_it_makes(partial: Any) -> None:
    """program() passes what a partial binds as arguments."""
    place = NamedSharding(EIGHT, P(None, "model"))
    w = jax.device_put(jnp.ones((64, 64)), place)
    x = jnp.ones((8, 64))
    step = jax.jit(descend, donate_argnums=0)
    by_place = figures(program(step, w, x))
    by_name = figures(program(step, w, x=x))

    assert by_place.memory.donated == w.nbytes // 8
    assert set(by_place.transfers or ()) == {"x"}
    assert set(by_name.transfers or ()) == {"x"}
    for seen, expected in (
        (program(partial(step, w), x), by_place),
        (program(partial(step, w, x)), by_place),
        (program(partial(partial(step, w), x)), by_place),
        (program(partial(step, x=x), w), by_name),
        (program(partial(step, x=w), w, x=x), by_name),
        (
            program(partial(descend, w), x),
            figures(program(descend, w, x)),
        ),
    ):
        assert figures(seen) == expected


@pytest.mark.parametrize(
    "partial", [functools.partial, jax.tree_util.Partial]
)
def test_a_partial_has_the_names_of_its_function(partial: Any) -> None:
    """program() names what a partial binds as if it were passed."""
    w, x = jnp.ones((4, 2)), jnp.ones((8, 4))
    named = {"w": w.nbytes, "x": x.nbytes}

    for seen in (
        program(partial(descend, w), x),
        program(partial(descend, w), x=x),
        program(partial(descend, x=x), w),
        program(partial(partial(descend, w), x)),
        program(partial(jax.jit(descend), w), x),
    ):
        assert seen.argument_bytes == named
    # Under jax.jit, what is bound is a constant, and no argument.
    jitted = jax.jit(partial(descend, w))
    assert program(jitted, x).argument_bytes == {"x": x.nbytes}


def test_a_partial_that_binds_modules() -> None:
    """program() takes the step that a trainer holds."""
    live = make()
    step = nnx.jit(train, donate_argnums=(0, 1))
    whole = figures(program(step, *live, X))
    before = list(parts(live))

    assert whole.memory.donated > 0
    assert "model.linear.kernel" in (whole.argument_bytes or ())
    seen = program(functools.partial(step, *live), X)
    assert figures(seen) == whole
    require_same(live, before)


class Jitted:
    """A class with steps as methods."""

    def __init__(self, w: jax.Array) -> None:
        self.w = w

    @functools.partial(jax.jit, static_argnums=0)
    def hidden(self, x: jax.Array) -> jax.Array:
        """Multiply by a constant of the program."""
        return x @ self.w


class JittedModule(nnx.Module):
    """A Module with a step as a method."""

    def __init__(self) -> None:
        self.w = nnx.Param(jnp.ones((4, 4)))

    @nnx.jit(donate_argnums=0)
    def step(self, x: jax.Array) -> None:
        """Update the parameter."""
        self.w[...] += (x @ self.w).sum()

    @jax.jit
    def forward(self, x: jax.Array) -> jax.Array:
        """Multiply by the parameter."""
        return x @ self.w


def test_a_jitted_method() -> None:
    """program() passes the object of a method as an argument."""
    module = JittedModule()

    assert program(Jitted(X.T).hidden, X).argument_bytes == {"x": X.nbytes}
    for function in (module.step, functools.partial(module.step)):
        seen = program(function, X)
        whole = program(JittedModule.step, module, X)
        assert figures(seen) == figures(whole)
        assert seen.memory.donated == 4 * 4 * 4
        assert seen.argument_bytes == {"self.w": 64, "x": X.nbytes}
    assert program(module.forward, X).argument_bytes == seen.argument_bytes


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["weight", "activation"],
    meta_fields=[],
)
@dataclass
class Foreign:
    """A tree with a function among its leaves, as Equinox's modules are."""

    weight: jax.Array
    activation: Any = jax.nn.relu

    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply the layer."""
        return self.activation(x @ self.weight)


@dataclass
class ForeignStage:
    """A lowered step that is not of jax, as Equinox's is."""

    lowered: Any

    def compile(self) -> Any:
        """Compile it."""
        return ForeignCompiled(self.lowered.compile())


@dataclass
class ForeignCompiled:
    """A compiled step that is not of jax."""

    compiled: Any

    def __call__(self, x: jax.Array) -> jax.Array:
        """Run it, which program() never does."""
        raise NotImplementedError


@dataclass
class ForeignPartial:
    """A partial that is not of Python."""

    func: Any
    args: tuple[Any, ...]
    keywords: dict[str, Any]

    def __call__(self, *args: Any) -> Any:
        """Run it, which program() never does."""
        raise NotImplementedError


class ForeignJit:
    """What jits a function of such a tree, as Equinox's filter_jit does."""

    def lower(self, module: Foreign, x: jax.Array) -> ForeignStage:
        """Lower it, with the arrays in another order."""
        step = jax.jit(
            lambda arrays: replace(module, weight=arrays[1])(arrays[0])
        )
        return ForeignStage(step.lower((x, module.weight)))

    def __call__(self, *args: Any) -> Any:
        """Run it, which program() never does."""
        raise NotImplementedError


def test_a_step_of_another_library() -> None:
    """program() takes what is jitted, lowered or compiled in a wrapper."""
    module, x = (
        Foreign(jnp.ones((4, 2))),
        jax.device_put(X, NamedSharding(EIGHT, P("model"))),
    )
    jitted = ForeignJit()
    lowered = jitted.lower(module, x)
    direct = program(lowered.lowered)

    assert direct.memory.arguments == 4 * 2 * 4 + X.nbytes // 8
    for given in (lowered, lowered.compile()):
        assert figures(program(given)) == figures(direct)
    for seen in (
        program(jitted, module, x),
        program(ForeignPartial(jitted, (module,), {}), x),
    ):
        assert seen.memory == direct.memory
        assert seen.arguments is seen.transfers is None
    plain = program(lambda module, x: module(x), module, x)
    assert plain.argument_bytes == {"module.weight": 32, "x": X.nbytes // 8}
    with pytest.raises(TypeError, match="got a Foreign, whose arrays"):
        program(module, x)


def test_a_layout_of_a_tree_with_functions() -> None:
    """layout() leaves functions out, unless there is nothing else."""
    module = Foreign(jnp.ones((4, 2)))

    assert [leaf.path for leaf in layout([module])] == ["0.weight"]
    with pytest.raises(TypeError, match="leaf at '' is a function"):
        layout(make)
    with pytest.raises(TypeError, match=r"leaf at 'name' is a str"):
        layout({"name": "relu"})
