"""Mistakes in steps of released models, and what a saved program says.

Each mistake is made in a step whose program was saved without it. The
message must name the array, the argument or the line to repair.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen, nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from small import Small, loss, small_maxtext, small_tunix, tokens

from shardscope import Program, ProgramMismatch, program

# Compiles the step with a mistake, and the lines that must be in what it
# says, as regular expressions.
Mistake = tuple[Callable[[], Program], tuple[str, ...]]


# --- Six mistakes in a training step ---


def train_step_of(
    build: Callable[[], Small],
    edit: Callable[[Small], None] = lambda small: None,
    apply: Callable[[Small, Any], None] = lambda small, model: None,
    state: P | None = None,
    batch: Callable[[jax.Array, Small], Any] = lambda batch, small: batch,
    donate: tuple[int, ...] = (0, 1),
) -> Program:
    """Compile a training step with AdamW, perhaps with a mistake."""
    small = build()
    with linen.logical_axis_rules(small.rules), jax.set_mesh(small.mesh):
        edit(small)
        tx = optax.adamw(1e-3)
        optimizer = nnx.Optimizer(small.model, tx, wrt=nnx.Param)
        if state is not None:
            whole = NamedSharding(small.mesh, state)
            placed = jax.device_put(nnx.state(optimizer), whole)
            nnx.update(optimizer, placed)

        def forward(model: Any, batch: jax.Array) -> jax.Array:
            apply(small, model)
            return loss(small.logits(model, batch), batch)

        def train_step(model: Any, optimizer: Any, batch: Any) -> Any:
            value, grads = nnx.value_and_grad(forward)(model, batch)
            optimizer.update(model, grads)
            return value

        return program(
            nnx.jit(train_step, donate_argnums=donate),
            small.model,
            optimizer,
            batch(tokens(small.mesh, "fsdp"), small),
        )


def six_mistakes(
    build: Callable[[], Small],
    kernel: Callable[[Any], nnx.Param[Any]],
    path: str,
    specs: tuple[P, P],
    moment: str,
) -> tuple[Program, Mapping[str, Mistake]]:
    """Give a step, and the step with each of six mistakes.

    Args:
        build: Makes the model.
        kernel: Finds the kernel for which the mistakes are made.
        path: Its path in the program.
        specs: Its spec, and the spec with its axes swapped.
        moment: The path of a moment of the optimizer, rolled up.
    """

    def place_kernel(small: Small, model: Any, spec: P) -> None:
        param, sharding = kernel(model), NamedSharding(small.mesh, spec)
        # An assignment to param[...] would keep the spec.
        param.set_value(
            jax.lax.with_sharding_constraint(param[...], sharding)
        )

    def whole_batch(batch: jax.Array, small: Small) -> jax.Array:
        return jax.device_put(batch, NamedSharding(small.mesh, P()))

    name = re.escape(path)
    before, after = (re.escape(str(spec)) for spec in specs)

    def broken(**mistake: Any) -> Callable[[], Program]:
        return lambda: train_step_of(build, **mistake)

    return train_step_of(build), {
        "a spec is swapped": (
            broken(edit=lambda s: place_kernel(s, s.model, specs[1])),
            (rf"changed: {name}: {before} -> {after}",),
        ),
        "the optimizer state is replicated": (
            broken(state=P()),
            (
                rf"grown: {re.escape(moment)}: .* -> P\(\), .*\(\+700%\)",
                r"grown: memory, ",
            ),
        ),
        "a weight is gathered": (
            broken(apply=lambda s, model: place_kernel(s, model, P())),
            (rf"(new|grown): .*all-gather of {name} over ",),
        ),
        "the batch is not sharded": (
            broken(batch=whole_batch),
            (r"grown: batch: P\('fsdp'\) -> P\(\), .*\(\+100%\)",),
        ),
        "nothing is donated": (
            broken(donate=()),
            (
                r"gone: donation of model, optimizer, .* pass "
                r"donate_argn",
            ),
        ),
        "the batch is a NumPy array": (
            broken(batch=lambda batch, _: np.asarray(batch)),
            (
                r"new: transfer of batch, a NumPy array, .* jax.device_put"
                r".* as P\('fsdp'\)",
            ),
        ),
    }


# --- Two of public pull requests ---


def accumulating_step(once: bool) -> Program:
    """Add up gradients of micro-batches, and of devices once or each time.

    From https://github.com/AI-Hypercomputer/maxtext/pull/5056.
    """
    small = small_tunix("llama3", "Llama3", "llama3p2_1b", "vocab_size")
    mesh = jax.make_mesh((8,), ("data",), (AxisType.Auto,))
    graphdef, params = nnx.split(small.model)

    def local_gradients(params: Any, batch: jax.Array) -> Any:
        if once:
            params = jax.lax.pcast(params, "data", to="varying")

        def microbatch_loss(params: Any, part: jax.Array) -> jax.Array:
            model = nnx.merge(graphdef, params)
            return loss(small.logits(model, part), part)

        def accumulate(total: Any, part: jax.Array) -> Any:
            grads = jax.grad(microbatch_loss)(params, part)
            return jax.tree.map(jnp.add, total, grads), None

        zero = jax.tree.map(jnp.zeros_like, params)
        parts = batch.reshape(4, -1, batch.shape[-1])
        total = jax.lax.scan(accumulate, zero, parts)[0]
        return jax.lax.psum(total, "data") if once else total

    def step(params: Any, batch: jax.Array) -> Any:
        grads = jax.shard_map(
            local_gradients,
            mesh=mesh,
            in_specs=(P(), P("data")),
            out_specs=P(),
        )(params, batch)
        return jax.tree.map(lambda p, g: p - 1e-3 * g, params, grads)

    def place(array: jax.Array, spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(
            array.shape, array.dtype, sharding=NamedSharding(mesh, spec)
        )

    params = jax.tree.map(lambda array: place(array, P()), params)
    batch = place(jnp.ones((64, 16), "int32"), P("data"))
    return program(jax.jit(step), params, batch)


def embedding_step(spec: P) -> Program:
    """Look up tokens in an embedding that is sharded by vocabulary.

    From https://github.com/sgl-project/sglang-jax/pull/1083.
    """
    explicit = (AxisType.Explicit,) * 2
    mesh = jax.make_mesh((2, 4), ("data", "tensor"), explicit)

    def array(shape: tuple[int, ...], dtype: str, spec: P) -> Any:
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

    def embed(table: jax.Array, ids: jax.Array) -> jax.Array:
        return table.at[ids].get(out_sharding=spec)

    def forward(params: Any, ids: jax.Array) -> jax.Array:
        hidden = embed(params["embedding"], ids)
        return jax.reshard(hidden, P("data", None)) @ params["up"]

    params = {
        "embedding": array((512, 64), "float32", P("tensor", None)),
        "up": array((64, 256), "float32", P(None, "tensor")),
    }
    with jax.set_mesh(mesh):
        ids = array((64,), "int32", P("data"))
        return program(jax.jit(forward), params, ids)


# --- All of them ---


def steps() -> Iterator[tuple[str, Program, Mapping[str, Mistake]]]:
    """Give each step without a mistake, and its mistakes."""
    yield (
        "tunix llama3, 4 layers",
        *six_mistakes(
            lambda: small_tunix(
                *("llama3", "Llama3", "llama3p1_8b", "vocab_size", 4)
            ),
            lambda model: model.layers[2].mlp.up_proj.kernel,
            "model.layers.2.mlp.up_proj.kernel",
            (P("fsdp", "tp"), P("tp", "fsdp")),
            "optimizer.opt_state.0.mu.layers.*.mlp.up_proj.kernel ×4",
        ),
    )
    small = {"base_emb_dim": 64, "base_mlp_dim": 256, "head_dim": 16}
    small |= {"base_num_query_heads": 8, "base_num_kv_heads": 4}
    yield (
        "maxtext llama3.1, 6 layers",
        *six_mistakes(
            lambda: small_maxtext("llama3.1", "llama3.1-8b", 6, **small),
            lambda model: model.decoder.layers.mlp.wi_0.kernel,
            "model.decoder.layers.mlp.wi_0.kernel",
            (P("fsdp", None, "tensor"), P("tensor", None, "fsdp")),
            "optimizer.opt_state.0.mu.decoder.layers.mlp.wi_*.kernel ×2",
        ),
    )
    yield (
        "tunix llama3, 4 micro-batches",
        accumulating_step(True),
        {
            "an all-reduce is in the accumulation loop": (
                lambda: accumulating_step(False),
                (
                    r"new: .* all-reduce of .* over data, .*: backward, .*"
                    r" < \.\.\. < mutants.py:\d+ < ",
                    r"gone: .* all-reduce of .*: local_gradients\(\)",
                ),
            )
        },
    )
    yield (
        "an embedding, sharded by vocabulary",
        embedding_step(P("data", None)),
        {
            "the embedding's result is gathered": (
                lambda: embedding_step(P(None, None)),
                (
                    r"new: 1 all-gather of .* over data, .*: embed\(\) .*"
                    r"`return table.at\[ids\].get\(out_sharding=spec\)`",
                ),
            )
        },
    )


def try_mistakes() -> Iterator[tuple[bool, str, list[str]]]:
    """Make each mistake, and find what must be named in the message.

    Yields:
        Whether it is named, which mistake this is, and the lines that name
        it, or else all lines.
    """
    for name, unbroken, mistakes in steps():
        with TemporaryDirectory() as folder:
            path = Path(folder) / "step.json"
            unbroken.save(path)
            for mistake, (broken, expected) in mistakes.items():
                said = []
                try:
                    broken().match(path)
                except ProgramMismatch as error:
                    # With the lines below each change.
                    text = str(error).replace("\n    ", ": ")
                    said = text.splitlines()[1:-1]
                named = [
                    next(filter(re.compile(words).search, said), "")
                    for words in expected
                ]
                title = f"{name}: {mistake}"
                found = all(named)
                yield found, title, named if found else said
