"""A step of an MLP in mixed precision, for any eight devices."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook.inputs import mlp_error
from shardbook.problems.mixed_precision_step import mixed_precision_step
from shardbook_site.note_chips import mesh_on
from shardscope import devices_of, program

MESH = {"data": 8}
ROWS, DIM, HIDDEN = 65536, 4096, 16384
RATE = 0.1


def arguments_on(mesh):
    """Return parameters and a batch, abstract."""

    def array(*shape):
        sharding = NamedSharding(mesh, P("data"))
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)

    params = {"up": array(DIM, HIDDEN), "down": array(HIDDEN, DIM)}
    return params, {name: array(ROWS, DIM) for name in ("x", "y")}


def step_on(mesh):
    """Return a step for the devices of a mesh, and abstract arguments."""
    step = mixed_precision_step(mlp_error, RATE, mesh)
    return step, arguments_on(mesh)


def narrow(params):
    """Cast to bfloat16."""
    return jax.tree.map(lambda p: p.astype(jnp.bfloat16), params)


def gather(params):
    """Gather over the devices."""
    return jax.tree.map(
        lambda p: jax.lax.all_gather(p, "data", tiled=True), params
    )


def scatter(gradient):
    """Add up over the devices, and keep a slice."""
    return jax.lax.psum_scatter(gradient, "data", tiled=True)


def scatter_in_float32(gradient):
    """Add up in float32."""
    return scatter(gradient.astype(jnp.float32))


def scatter_by_terms(gradient):
    """Send bfloat16 terms, and add them up where they arrive."""
    parts = gradient.reshape(8, -1, gradient.shape[1])
    terms = jax.lax.all_to_all(parts, "data", 0, 0)
    return terms.astype(jnp.float32).sum(axis=0)


def by_hand(whole, reduce):
    """Return a function that makes a step of these two parts."""

    def local(params, batch):
        value, gradients = jax.value_and_grad(mlp_error)(
            whole(params), batch
        )
        new = jax.tree.map(
            lambda p, g: p - RATE / 8 * reduce(g).astype(jnp.float32),
            params,
            gradients,
        )
        return new, jax.lax.pmean(value, "data")

    return lambda mesh: jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(P("data"), P("data")),
        out_specs=(P("data"), P()),
    )


def through_the_cast(mesh):
    """Return a step that differentiates through gather and cast."""

    def local(params, batch):
        def own_loss(params):
            return mlp_error(gather(narrow(params)), batch)

        value, gradients = jax.value_and_grad(own_loss)(params)
        new = jax.tree.map(lambda p, g: p - RATE / 8 * g, params, gradients)
        return new, jax.lax.pmean(value, "data")

    return jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(P("data"), P("data")),
        out_specs=(P("data"), P()),
    )


def under_jit(gradients_of):
    """Return a function that makes a step without collectives."""

    def step(params, batch):
        value, gradients = gradients_of(params, batch)
        new = jax.tree.map(
            lambda p, g: p - RATE * g.astype(jnp.float32), params, gradients
        )
        return new, value

    def make(mesh):
        def sharded(params, batch):
            new, value = step(params, batch)
            rows = NamedSharding(mesh, P("data"))
            return jax.lax.with_sharding_constraint(new, rows), value

        return sharded

    return make


def of_float32(params, batch):
    """Differentiate with respect to the float32 parameters."""
    return jax.value_and_grad(lambda p: mlp_error(narrow(p), batch))(params)


def of_bfloat16(params, batch):
    """Differentiate with respect to their bfloat16 copies."""
    return jax.value_and_grad(mlp_error)(narrow(params), batch)


@jax.custom_vjp
def product(x, kernel):
    """Multiply in the dtype of x, with the kernel's gradient in float32."""
    return forward(x, kernel)[0]


def forward(x, kernel):
    """Return the product, and what its derivative needs."""
    kernel = kernel.astype(x.dtype)
    return x @ kernel, (x, kernel)


def backward(saved, gradient):
    """Return the gradients of both factors."""
    x, kernel = saved
    rows = tuple(range(x.ndim - 1))
    of_kernel = jnp.tensordot(
        x, gradient, (rows, rows), preferred_element_type=jnp.float32
    )
    return jnp.tensordot(gradient, kernel, (-1, 1)), of_kernel


product.defvjp(forward, backward)


def layer_by(product):
    """Return a layer of Flax that multiplies so."""

    def layer(x, kernel):
        made = nnx.Linear(
            *kernel.shape,
            use_bias=False,
            dot_general=lambda x, kernel, *_, **__: product(x, kernel),
            promote_dtype=lambda arrays, dtype: arrays,
            rngs=nnx.Rngs(0),
        )
        graphdef = nnx.graphdef(made)
        return nnx.merge(graphdef, {"kernel": kernel})(x)

    return layer


def by_products(multiply):
    """Return a function that differentiates a loss of these products."""

    def loss(params, batch):
        x = batch["x"].astype(jnp.bfloat16)
        hidden = jax.nn.gelu(multiply(x, params["up"]))
        output = multiply(hidden, params["down"]).astype(jnp.float32)
        return ((output - batch["y"]) ** 2).mean()

    return jax.value_and_grad(loss)


OTHERS = {
    "gathered, then cast": by_hand(
        lambda params: narrow(gather(params)), scatter_in_float32
    ),
    "through the cast": through_the_cast,
    "sums in bfloat16": by_hand(
        lambda params: gather(narrow(params)), scatter
    ),
    "terms": by_hand(
        lambda params: gather(narrow(params)), scatter_by_terms
    ),
    "jit": under_jit(of_float32),
    "jit of copies": under_jit(of_bfloat16),
    "jit of product": under_jit(by_products(product)),
    "jit of layers": under_jit(by_products(layer_by(product))),
}
# What the page's table says, in MB, of v5e and H100.
SENT = {
    "gathered, then cast": (714, 822),
    "through the cast": (474, 470),
    "sums in bfloat16": (474, 470),
    "terms": (470, 470),
    "jit": (570, 470),
    "jit of copies": (570, 470),
    "jit of product": (872, 705),
    "jit of layers": (872, 705),
}
# Bytes that a device holds for a parameter of a deep model, besides its
# shards, on v5e and H100.
HELD = (4, 2)


def deep(mesh):
    """Return the bytes for a parameter that a step of eight MLPs holds."""
    rows = NamedSharding(mesh, P("data"))

    def array(*shape):
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=rows)

    def loss(params, batch):
        x = batch["x"].astype(jnp.bfloat16)
        for layer in params:
            x += jax.nn.gelu(x @ layer["up"]) @ layer["down"]
        return ((x.astype(jnp.float32) - batch["y"]) ** 2).mean()

    params = [{"up": array(2048, 8192), "down": array(8192, 2048)}] * 8
    batch = {name: array(2048, 2048) for name in ("x", "y")}
    report = program(mixed_precision_step(loss, RATE, mesh), params, batch)
    return report.memory.temporaries / (8 * 2 * 2048 * 8192)


def dtypes(report):
    """Return the dtypes of what is sent, but for the loss."""
    arrays = (a for each in report.communication for a in each.arrays)
    return {a.partition("[")[0] for a in arrays if not a.endswith("[]")}


def kinds(report, dtype):
    """Return the kinds of collectives that carry a dtype."""
    return {
        each.kind
        for each in report.communication
        if any(a.startswith(f"{dtype}[") for a in each.arrays)
    } - {"all-reduce"}


def check(cpu, v5e, h100):
    """Assert what the page says."""
    parameters = 2 * DIM * HIDDEN
    # Of a ring of eight devices, and for the loss.
    asked = 6 * parameters * 7 // 8 + 7
    assert h100.sent("data") == asked
    assert asked < v5e.sent("data") < 1.02 * asked
    assert cpu.sent("data") == 8 * parameters * 7 // 8 + 7
    assert dtypes(cpu) == {"f32"}
    for report in (v5e, h100):
        assert kinds(report, "bf16") == {"all-gather"}
        assert "all-gather" not in kinds(report, "f32")
        assert "reduce-scatter" in kinds(report, "f32")
    assert any(
        each.kind == "reduce-scatter"
        and each.arrays == (f"f32[{HIDDEN + 320},{DIM}]",)
        for each in v5e.communication
    )
    assert v5e.collectives["collective-permute"] == 1

    found = {}
    machines = devices_of("v5e:2x4"), devices_of("h100:1x8"), jax.devices()
    for index, devices in enumerate(machines):
        mesh = mesh_on(MESH, devices)
        for name, make in OTHERS.items():
            step = jax.jit(make(mesh), donate_argnums=0)
            report = program(step, *arguments_on(mesh))
            found[name, index] = report
            if devices is machines[-1]:
                assert "jit" in name or report.sent() == cpu.sent()
                continue
            sent = round(report.sent("data") / 1e6)
            assert sent == SENT[name][index], (name, index, sent)
            if name in ("jit of product", "jit of layers"):
                assert dtypes(report) == {"bf16", "f32"}, (name, index)
                assert "all-gather" not in kinds(report, "f32")
            elif name != "gathered, then cast":
                assert dtypes(report) == {"bf16"}, (name, index)
    # Of the gathers before the cast, one stays float32 on the H100.
    early, late = (found["gathered, then cast", i] for i in (0, 1))
    assert "all-gather" not in kinds(early, "f32")
    assert "all-gather" in kinds(late, "f32") & kinds(late, "bf16")
    for held, devices in zip(HELD, machines[:2], strict=True):
        report = deep(mesh_on(MESH, devices))
        assert held - 0.1 < report < held + 0.4, (held, report)
