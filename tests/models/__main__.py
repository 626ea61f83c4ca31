"""Try layout() and program() on what others wrote, and note what they say.

Run it with "nox -s models". What the tools count is counted again by code
that shares nothing with theirs, and the exit status is 1 if they disagree.
"""

import dataclasses
import importlib
import io
import math
import os
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import optax
from flax import linen, nnx
from flax.training.train_state import TrainState
from jax.sharding import (
    AbstractMesh,
    AxisType,
    NamedSharding,
    PartitionSpec as P,
)
from mutants import try_mistakes
from small import (
    SHAPES,
    Small,
    configure_maxtext,
    loss,
    maxtext_sizes,
    place,
    plan_module,
    small_maxtext,
    small_tunix,
    tokens,
)

from shardscope import Collective, Program, layout, program

NOTE = Path(__file__).parents[2] / "benchmarks" / "models.txt"
PACKAGES = (
    *("jax", "flax", "google-tunix", "gemma", "kauldron", "maxtext"),
    *("equinox", "dm-haiku"),
)


@dataclasses.dataclass
class Model:
    """A released model: its abstract arrays, on so many devices."""

    name: str
    plan: Callable[[int], Any]


@dataclasses.dataclass
class Step:
    """A training step of a small model, whose arrays are on devices."""

    name: str
    held: Any
    program: Program


def nnx_step(small: Small) -> Step:
    """Compile a training step of a Module, with Adam."""
    model, mesh = small.model, small.mesh
    tx = optax.adam(1e-3)

    def train_step(model: Any, optimizer: Any, batch: Any) -> Any:
        value, gradients = nnx.value_and_grad(
            lambda model: loss(small.logits(model, batch), batch)
        )(model)
        optimizer.update(model, gradients)
        return value

    with linen.logical_axis_rules(small.rules), jax.set_mesh(mesh):
        # Not under jit: tunix keeps Flax from laying out what it makes.
        optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)
        step = nnx.jit(train_step, donate_argnums=(0, 1))
        seen = program(step, model, optimizer, tokens(mesh, "fsdp"))
    return Step(small.name, {"model": model, "optimizer": optimizer}, seen)


# --- Models ---


def tunix(
    family: str, cls: str, names: list[str], vocabulary: str
) -> Iterator[Model | Step]:
    """Modules of google-tunix, which name the mesh axes themselves."""
    module = importlib.import_module(f"tunix.models.{family}.model")
    build = getattr(module, cls)

    def plan(config: Any, mesh: Any) -> Any:
        return plan_module(lambda: build(config, rngs=nnx.Rngs(0)), mesh)

    axes = ("fsdp", "tp")
    for name in names:
        config = getattr(module.ModelConfig, name)()
        yield Model(
            f"tunix {name}",
            lambda devices, config=config: plan(
                config, AbstractMesh(SHAPES[devices], axes)
            ),
        )
    yield nnx_step(small_tunix(family, cls, names[0], vocabulary))


def gemma() -> Iterator[Model | Step]:
    """Linen modules of gemma, sharded by the rule of kauldron for FSDP."""
    from gemma import gm
    from kauldron import kd

    def shardings(arrays: Any, mesh: Any, least: int) -> Any:
        # The rule asks for the devices that there are, and these are
        # planned. What it has looked up is kept in its __dict__.
        whole = NamedSharding(mesh, P())
        looked_up = {"DEVICES_MESH": mesh, "REPLICATED": whole}
        with (
            mock.patch.object(jax, "device_count", return_value=mesh.size),
            mock.patch.dict(vars(kd.sharding), looked_up),
        ):
            rule = kd.sharding.FSDPSharding(min_size_to_shard_mb=least)
            return rule(arrays)

    def plan(model: Any, mesh: Any, least: int = 4) -> Any:
        example = jnp.zeros((1, 8), jnp.int32)
        arrays = jax.eval_shape(model.init, jax.random.key(0), example)
        return place(arrays, shardings(arrays, mesh, least))

    for name in ("Gemma3_1B", "Gemma3_27B"):
        model = getattr(gm.nn, name)(tokens="tokens")
        yield Model(
            f"gemma {name}",
            lambda devices, model=model: plan(
                model, AbstractMesh((devices,), ("devices",))
            ),
        )
    config = dataclasses.replace(
        gm.nn.Gemma3_1B.config,
        **{"num_embed": 256, "embed_dim": 64, "hidden_dim": 256},
        **{"num_heads": 8, "num_kv_heads": 4, "head_dim": 16},
        attention_types=gm.nn.Gemma3_1B.config.attention_types[:2],
    )
    model = gm.nn.Gemma3_1B(tokens="tokens", config=config)
    mesh = jax.make_mesh((8,), ("devices",), (AxisType.Auto,))
    batch = tokens(mesh, "devices")
    placed = jax.tree.map(lambda x: x.sharding, plan(model, mesh, 0))
    params = jax.jit(model.init, out_shardings=placed)(
        jax.random.key(0), batch
    )

    def train_step(params: Any, batch: jax.Array) -> Any:
        value, gradients = jax.value_and_grad(
            lambda p: loss(model.apply(p, batch).logits, batch)
        )(params)
        return value, jax.tree.map(lambda p, g: p - g, params, gradients)

    seen = program(jax.jit(train_step, donate_argnums=0), params, batch)
    yield Step("gemma Gemma3, 2 layers", params, seen)


def maxtext() -> Iterator[Model | Step]:
    """Modules of MaxText: logical axes, and layers under a scan."""
    from maxtext.utils import model_creation_utils

    def plan(name: str, devices: int) -> Any:
        config = configure_maxtext(name)
        sizes = maxtext_sizes(config, devices)
        mesh = AbstractMesh(sizes, tuple(config.mesh_axes))
        return nnx.state(
            model_creation_utils.create_nnx_abstract_model(config, mesh)[1]
        )

    for name in ("llama3.1-405b", "deepseek3-671b", "qwen3-235b-a22b"):
        yield Model(
            f"maxtext {name}",
            lambda devices, name=name: plan(name, devices),
        )
    dense = {"sparse_matmul": False, "megablox": False}
    yield nnx_step(small_maxtext("deepseek3", "deepseek3-tiny", 5, **dense))


# --- Steps of other libraries ---


def staged_step(name: str, held: Any, step: Any, *args: Any) -> Step:
    """Compile a step, which has to be the same lowered and compiled."""
    seen = program(step, *args)
    lowered = step.lower(*args)
    for stage in (lowered, lowered.compile()):
        again = program(stage)
        assert again.memory == seen.memory
        assert without_paths(again) == without_paths(seen)
    return Step(name, held, seen)


def without_paths(seen: Program) -> list[Collective]:
    """Give the collectives without paths, which only a call tells."""
    return [
        dataclasses.replace(each, arguments=())
        for each in seen.communication
    ]


def equinox() -> Iterator[Step]:
    """A module with a function among its leaves, under filter_jit."""
    import equinox as eqx

    mesh = jax.make_mesh((8,), ("data",), (AxisType.Auto,))
    tx = optax.adam(1e-3)
    model = eqx.nn.MLP(64, 64, 256, 2, key=jax.random.key(0))
    moments = tx.init(eqx.filter(model, eqx.is_array))
    held = eqx.filter_shard((model, moments), NamedSharding(mesh, P()))
    batch = jax.device_put(
        jnp.ones((64, 64)), NamedSharding(mesh, P("data"))
    )

    @eqx.filter_jit(donate="all-except-first")
    def train_step(batch: jax.Array, model: Any, moments: Any) -> Any:
        gradients = eqx.filter_grad(
            lambda model: (jax.vmap(model)(batch) ** 2).mean()
        )(model)
        updates, moments = tx.update(gradients, moments)
        return eqx.apply_updates(model, updates), moments

    yield staged_step("equinox MLP", held, train_step, batch, *held)


def haiku() -> Iterator[Step]:
    """A transformed function under pmap."""
    import haiku as hk

    tx = optax.adam(1e-3)
    model = hk.transform(lambda x: hk.nets.MLP([256, 64])(x))
    batch = jnp.ones((8, 8, 64))
    keys = jnp.stack([jax.random.PRNGKey(0)] * 8)
    params = jax.pmap(model.init)(keys, batch)
    held = params, jax.pmap(tx.init)(params)

    def train_step(params: Any, moments: Any, batch: jax.Array) -> Any:
        gradients = jax.grad(
            lambda params: (model.apply(params, None, batch) ** 2).mean()
        )(params)
        updates, moments = tx.update(jax.lax.pmean(gradients, "i"), moments)
        return optax.apply_updates(params, updates), moments

    step = jax.pmap(train_step, axis_name="i", donate_argnums=(0, 1))
    yield staged_step("haiku MLP, pmap", held, step, *held, batch)


class Mlp(linen.Module):
    """Two layers."""

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply both."""
        return linen.Dense(64)(linen.relu(linen.Dense(256)(x)))


def train_state() -> Iterator[Step]:
    """A TrainState of Linen under jax.jit, with rows on devices."""
    mesh = jax.make_mesh((8,), ("fsdp",), (AxisType.Auto,))
    rows, model = NamedSharding(mesh, P("fsdp")), Mlp()
    batch = jax.device_put(jnp.ones((64, 64)), rows)
    state = TrainState.create(
        apply_fn=model.apply,
        params=model.init(jax.random.key(0), batch),
        tx=optax.adam(1e-3),
    )
    whole = NamedSharding(mesh, P())
    state = jax.device_put(
        state, jax.tree.map(lambda x: rows if jnp.ndim(x) else whole, state)
    )

    @jax.jit(donate_argnums=0)
    def train_step(state: TrainState, batch: jax.Array) -> TrainState:
        gradients = jax.grad(
            lambda params: (state.apply_fn(params, batch) ** 2).mean()
        )(state.params)
        return state.apply_gradients(grads=gradients)

    yield staged_step("Linen TrainState", state, train_step, state, batch)


def models() -> Iterator[Model | Step]:
    """Give all of them."""
    names = ["llama3p2_1b", "llama3p1_8b", "llama3p1_405b"]
    yield from tunix("llama3", "Llama3", names, "vocab_size")
    names = ["qwen3_0p6b", "qwen3_32b", "qwen3_30b_a3b"]
    yield from tunix("qwen3", "Qwen3", names, "vocab_size")
    names = ["gemma3_1b_it", "gemma3_27b_it"]
    yield from tunix("gemma3", "Gemma3", names, "num_embed")
    yield from gemma()
    yield from maxtext()
    yield from equinox()
    yield from haiku()
    yield from train_state()


# --- What the tools count, counted again ---


def bytes_by_spec(leaf: Any) -> int:
    """Divide the axes of an array by the mesh axes of its spec."""
    shape = list(leaf.shape)
    for axis, names in enumerate(leaf.sharding.spec):
        for name in (names,) if isinstance(names, str) else names or ():
            shape[axis], rest = divmod(
                shape[axis], leaf.sharding.mesh.shape[name]
            )
            assert rest == 0
    assert tuple(shape) == leaf.sharding.shard_shape(leaf.shape)
    return math.prod(shape) * leaf.dtype.itemsize


def bytes_of_shards(tree: Any) -> Counter[jax.Device]:
    """Add up what is on each device."""
    held: Counter[jax.Device] = Counter()
    # As a pytree, a Module repeats what it shares.
    arrays = {id(leaf): leaf for leaf in jax.tree.leaves(tree)}
    for leaf in arrays.values():
        # Equinox has functions among them.
        if callable(leaf):
            continue
        for shard in leaf.addressable_shards:
            held[shard.device] += shard.data.nbytes
    return held


def read_collectives(text: str) -> Counter[tuple[str, int]]:
    """Count the collectives of a program by kind and bytes.

    The bytes are those that a device puts in, by the type of the result.
    """
    lines: dict[str, list[str]] = {}
    for line in text.splitlines():
        if head := re.match(r"(ENTRY )?%([\w.-]+) .*\{$", line):
            name = head[2]
            lines[name] = []
        elif line.startswith("  "):
            lines[name].append(line)
    # The last one is the entry, and each comes before those that call it.
    runs = Counter({name: 1})
    found: Counter[tuple[str, int]] = Counter()
    for name in reversed(lines):
        for line in lines[name]:
            turns = re.search(r'"known_trip_count":\{"n":"(\d+)"', line)
            times = runs[name] * int(turns[1] if turns else 1)
            for called in re.findall(r"%([\w.-]+)", line.split(" = ")[1]):
                if called in lines:
                    runs[called] += times
            match = re.search(
                r" = (.*?) (all-gather|all-reduce|all-to-all"
                r"|collective-permute|reduce-scatter)\(",
                line,
            )
            if match and (group := group_size(line)) > 1:
                size = type_size(match[1])
                if match[2] == "all-gather":
                    size //= group
                if match[2] == "reduce-scatter":
                    size *= group
                found[match[2], size] += runs[name]
    return found


def type_size(text: str) -> int:
    """Count the bytes of a type such as ``"(f32[], bf16[8,4]{1,0})"``."""
    size = 0
    for kind, bits, shape in re.findall(r"([a-z]+)(\d*)\w*\[(.*?)\]", text):
        count = math.prod(int(n) for n in shape.split(",") if n)
        size += count if kind == "pred" else count * int(bits) // 8
    return size


def group_size(line: str) -> int:
    """Count the devices that take part together."""
    if pairs := re.search(r"source_target_pairs=\{(.*?\})\}", line):
        both = re.findall(r"\{(\d+),(\d+)\}", pairs[1])
        return 2 if any(one != other for one, other in both) else 1
    if listed := re.search(r"replica_groups=\{\{([\d,]+)\}", line):
        return len(listed[1].split(","))
    if iota := re.search(r"replica_groups=\[\d+,(\d+)\]<=", line):
        return int(iota[1])
    mesh = re.search(r"replica_groups=mesh\[(.*?)\].*? \{(.*?)\}", line)
    assert mesh, line
    sizes = dict(re.findall(r"'(\w+)'=(\d+)", mesh[1]))
    parts = re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", mesh[2])
    return math.prod(int(part or sizes[name]) for name, part in parts)


# --- The note ---


def try_model(model: Model) -> tuple[bool, str, list[str]]:
    """Compare the layouts of a model; tell whether they agree."""
    agree, cells, said = True, [], []
    for devices in SHAPES:
        tree = model.plan(devices)
        arrays = jax.tree.leaves(tree)
        start = time.perf_counter()
        seen = layout(tree)
        repr(seen)
        seconds = time.perf_counter() - start
        each = list(map(bytes_by_spec, arrays))
        agree &= each == [leaf.bytes_per_device for leaf in seen]
        agree &= seen.bytes_on == dict.fromkeys(range(devices), sum(each))
        cells.append(f"{seen.bytes_per_device / 2**30:9.3f}")
        for found in seen.findings():
            said.append(f"{model.name} on {devices}: {found}")
    parameters = sum(array.size for array in arrays) / 1e9
    row = (
        f"{model.name:28}{len(arrays):7}{parameters:9.2f} {''.join(cells)}"
        f"{seconds:9.3f}  {'yes' if agree else 'NO'}"
    )
    return agree, row, said


def try_step(step: Step) -> tuple[bool, str, list[str]]:
    """Compare what devices hold, and the collectives of the step."""
    seen = layout(step.held)
    agree = seen.bytes_on == bytes_of_shards(step.held)
    counted: Counter[tuple[str, int]] = Counter()
    for each in step.program.communication:
        counted[each.kind, each.bytes] += each.times
    agree &= counted == read_collectives(step.program.text)
    kinds = (f"{n} {kind}" for kind, n in step.program.collectives.items())
    row = (
        f"{step.name:28}{len(seen):7}{seen.bytes_per_device:12,}"
        f"{step.program.sent():12,}  {'yes' if agree else 'NO'}"
        f"  {', '.join(kinds)}"
    )
    every = (*seen.findings(), *step.program.findings())
    return agree, row, [f"{step.name}: {found}" for found in every]


def main() -> None:
    """Try them all, and write the note."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    # So wide that no path is shortened.
    os.environ["COLUMNS"] = "99"
    rows, steps, said, shown, mistakes = [], [], [], [], []
    agree = True
    for each in models():
        if isinstance(each, Model):
            same, row, words = try_model(each)
            rows.append(row)
            if each.name in ("tunix llama3p1_405b", "gemma Gemma3_27B"):
                title = f"--- {each.name} on 512 ---"
                shown += [title, repr(layout(each.plan(512))), ""]
        else:
            same, row, words = try_step(each)
            steps.append(row)
            if each.name.startswith("tunix llama3"):
                shown += [f"--- {each.name} ---", repr(each.program), ""]
        print(row, *words, sep="\n", file=sys.stderr, flush=True)
        said += words
        agree &= same
    for found, title, words in try_mistakes():
        lines = [title if found else f"NOT NAMED: {title}", *words]
        print(*lines, sep="\n", file=sys.stderr, flush=True)
        mistakes += lines
        agree &= found
    with redirect_stdout(io.StringIO()) as note:
        versions = (f"{name} {version(name)}" for name in PACKAGES)
        python = f"Python {platform.python_version()}"
        print(date.today(), python, *versions, sep=", ")
        print(
            "\nmodel                        arrays  billion  GiB: of 8"
            "   of 512  seconds  agrees"
        )
        print(*rows, sep="\n")
        print(
            "\nstep on 8 devices            arrays  bytes each        sent"
            "  agrees  collectives"
        )
        print(*steps, sep="\n")
        print("", *shown, "--- findings ---", *said, sep="\n")
        print("\n--- mistakes ---", *mistakes, sep="\n")
    NOTE.write_text(note.getvalue().rstrip() + "\n", "utf-8")
    print(f"See {NOTE}")
    sys.exit(0 if agree else "They disagree")


if __name__ == "__main__":
    main()
