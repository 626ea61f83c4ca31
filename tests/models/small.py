"""Small versions of released models, on eight devices."""

import dataclasses
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

# The devices along the two axes of a mesh, of so many devices.
SHAPES = {8: (2, 4), 512: (128, 4)}


@dataclasses.dataclass
class Small:
    """A small model, whose arrays are on devices.

    Attributes:
        name: Its library and family.
        model: The Module.
        mesh: Its mesh.
        logits: Applies the Module to tokens.
        rules: The mesh axes of its logical axes, if it has any.
    """

    name: str
    model: nnx.Module
    mesh: jax.sharding.Mesh
    logits: Callable[[Any, jax.Array], jax.Array]
    rules: Any = ()


def place(arrays: Any, shardings: Any) -> Any:
    """Give abstract arrays their shardings."""
    return jax.tree.map(
        lambda array, sharding: jax.ShapeDtypeStruct(
            array.shape, array.dtype, sharding=sharding
        ),
        arrays,
        shardings,
    )


def plan_module(build: Callable[[], nnx.Module], mesh: Any) -> Any:
    """Lay out a Module that names the mesh axes of its arrays."""
    with nnx.use_eager_sharding(False):
        arrays = nnx.state(nnx.eval_shape(build))
    return place(arrays, nnx.get_named_sharding(arrays, mesh))


def tokens(mesh: jax.sharding.Mesh, axis: str) -> jax.Array:
    """Make a batch, sharded over a mesh axis."""
    numbers = jnp.arange(8 * 16).reshape(8, 16)
    return jax.device_put(numbers, NamedSharding(mesh, P(axis)))


def loss(logits: jax.Array, tokens: jax.Array) -> jax.Array:
    """Compare with the tokens; which ones makes no difference here."""
    each = optax.softmax_cross_entropy_with_integer_labels(logits, tokens)
    return each.mean()


# --- tunix ---


def tunix_logits(model: Any, batch: jax.Array) -> jax.Array:
    """Apply a model of tunix."""
    count, length = batch.shape
    positions = jnp.broadcast_to(jnp.arange(length), batch.shape)
    mask = jnp.tril(jnp.ones((count, length, length), bool))
    return model(batch, positions, None, mask)[0]


def small_tunix(
    family: str, cls: str, name: str, vocabulary: str, layers: int = 2
) -> Small:
    """Make a Module of google-tunix smaller."""
    module = importlib.import_module(f"tunix.models.{family}.model")
    build = getattr(module, cls)
    config = dataclasses.replace(
        getattr(module.ModelConfig, name)(),
        **{"num_layers": layers, "embed_dim": 64, "hidden_dim": 256},
        **{"num_heads": 8, "num_kv_heads": 4, "head_dim": 16},
        **{vocabulary: 256},
    )
    mesh = jax.make_mesh(SHAPES[8], ("fsdp", "tp"), (AxisType.Auto,) * 2)
    model = build(config, rngs=nnx.Rngs(0))
    plan = plan_module(lambda: build(config, rngs=nnx.Rngs(0)), mesh)
    shardings = jax.tree.map(lambda x: x.sharding, plan)
    nnx.update(model, jax.device_put(nnx.state(model), shardings))
    name = f"tunix {family}, {layers} layers"
    return Small(name, model, mesh, tunix_logits)


# --- MaxText ---


def configure_maxtext(name: str, **other: Any) -> Any:
    """Give the settings of a model of MaxText."""
    import maxtext
    from maxtext.configs import pyconfig

    base = Path(maxtext.__file__).with_name("configs") / "base.yml"
    settings = {"model_name": name, "run_name": "models", **other}
    settings |= {"log_config": False, "enable_checkpointing": False}
    settings |= {"skip_jax_distributed_system": True}
    words = (f"{key}={value}" for key, value in settings.items())
    return pyconfig.initialize(["", str(base), *words])


def maxtext_sizes(config: Any, devices: int) -> tuple[int, ...]:
    """Divide devices over two of the many mesh axes of MaxText."""
    along = dict(zip(("fsdp", "tensor"), SHAPES[devices], strict=True))
    return tuple(along.get(name, 1) for name in config.mesh_axes)


def maxtext_logits(model: Any, batch: jax.Array) -> jax.Array:
    """Apply a model of MaxText."""
    positions = jnp.broadcast_to(jnp.arange(batch.shape[1]), batch.shape)
    return model(
        decoder_input_tokens=batch,
        decoder_positions=positions,
        decoder_segment_ids=jnp.ones_like(batch),
        enable_dropout=False,
    )


def small_maxtext(
    family: str, name: str, layers: int, **other: Any
) -> Small:
    """Make a Module of MaxText smaller."""
    from maxtext.utils import maxtext_utils_nnx, model_creation_utils

    config = configure_maxtext(
        name,
        override_model_config=True,
        base_num_decoder_layers=layers,
        vocab_size=256,
        max_target_length=16,
        attention="dot_product",
        **other,
    )
    axes = tuple(config.mesh_axes)
    auto = (AxisType.Auto,) * len(axes)
    mesh = jax.make_mesh(maxtext_sizes(config, 8), axes, auto)
    create, abstract = model_creation_utils.create_nnx_abstract_model(
        config, mesh
    )
    model = maxtext_utils_nnx.create_nnx_sharded_model(
        abstract, create, mesh
    )
    name = f"maxtext {family}, {layers} layers"
    rules = config.logical_axis_rules
    return Small(name, model, mesh, maxtext_logits, rules)
