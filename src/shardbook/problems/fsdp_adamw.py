"""Train a sharded model with AdamW, under jit."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def fsdp_adamw(
    build: Callable[..., nnx.Module],
    loss: Callable[[Any, Any], jax.Array],
    tx: Any,
    mesh: Mesh,
    rules: Sequence[tuple[str, P]],
) -> tuple[nnx.Module, nnx.Optimizer[nnx.Module], Callable[..., Any]]:
    """Return ``model, optimizer, step``, to train a model that is sharded.

    A device holds the bytes of its shards of the parameters three times:
    once in the model, and twice in the moments of AdamW.

    Args:
        build: ``build(constrain)`` makes the model, which calls
            ``constrain`` on its activations, ``(batch, ..., features)``.
            ``build`` is only traced, so no device holds the whole model.
            If it annotates Variables with mesh axes, set the mesh around
            the call.
        loss: ``loss(model, batch)``: a float32 scalar for the batch.
        tx: A gradient transformation of Optax, such as AdamW after
            ``clip_by_global_norm``. Under jit, norms are of whole arrays.
        mesh: Mesh with Auto axes, including ``"data"``.
        rules: Pairs of a pattern and a spec. An array gets the spec of
            the first pattern that matches its whole path, such as
            ``blocks.0.up.kernel``. One has to match.

    Returns:
        The model and its optimizer, with all arrays on ``mesh``: those of
        the model sharded by ``rules``, moments like their parameters, and
        counters ``P()``. ``step(model, optimizer, batch)`` updates both,
        donates their old arrays, and returns the loss before the update, a
        float32 scalar. ``batch`` is a tree of arrays, sharded as
        ``P("data")``. All steps are one program, but a model of another
        call of ``fsdp_adamw`` has another ``constrain``, so ``step``
        compiles again for it.

    Raises:
        ValueError: If no rule matches an array of the model.

    Example:
        ``value = step(model, optimizer, batch)``

    References:
        Xu et al., *GSPMD: General and Scalable Parallelization for ML
        Computation Graphs*, 2021, section 5.1,
        https://arxiv.org/abs/2105.04663
    """
    # --- solution ---
    rows = NamedSharding(mesh, P("data"))

    def constrain(x: jax.Array) -> Any:
        return jax.lax.with_sharding_constraint(x, rows)

    def make() -> tuple[nnx.Module, nnx.Optimizer[nnx.Module]]:
        model = build(constrain)
        return model, nnx.Optimizer(model, tx, wrt=nnx.Param)

    graphdef, shapes = nnx.split(nnx.eval_shape(make))
    in_model = dict(jax.tree.leaves_with_path(shapes[0]))

    def place(keys: Any, leaf: jax.ShapeDtypeStruct) -> NamedSharding:
        # The path of a moment ends with the path of its parameter.
        ends = [keys[start:] for start in range(1, len(keys))]
        found = [end for end in ends if end in in_model]
        if not found or in_model[found[0]].shape != leaf.shape:
            return NamedSharding(mesh, P())
        path = jax.tree_util.keystr(found[0], simple=True, separator=".")
        path = path.removesuffix(".value")  # The array of a Variable.
        for pattern, spec in rules:
            if re.fullmatch(pattern, path):
                return NamedSharding(mesh, spec)
        raise ValueError(f"no rule matches {path}")

    shardings = jax.tree.map_with_path(place, shapes)
    init = jax.jit(lambda: nnx.state(make()), out_shardings=shardings)
    model, optimizer = nnx.merge(graphdef, init())
    kept = [nnx.StateSharding(shardings[i]) for i in (0, 1)]

    # nnx.jit applies the shardings of an argument to its update too.
    @nnx.jit(in_shardings=(*kept, rows), donate_argnums=(0, 1))
    def step(model: Any, optimizer: Any, batch: Any) -> Any:
        value, gradient = nnx.value_and_grad(loss)(model, batch)
        optimizer.update(model, gradient)
        return value

    return model, optimizer, step
