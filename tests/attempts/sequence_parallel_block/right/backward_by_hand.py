from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

SPECS = {"scale": P(), "up": P(None, "model"), "down": P("model")}
TOKENS = P("data", "model")
gather = partial(jax.lax.all_gather, axis_name="model", axis=1, tiled=True)
scatter = partial(
    jax.lax.psum_scatter, axis_name="model", scatter_dimension=1, tiled=True
)


def norm(x, scale):
    return scale * x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def forward(params, x):
    whole = gather(norm(x, params["scale"]))
    return x + scatter(jax.nn.gelu(whole @ params["up"]) @ params["down"])


def backward(params, x, slope):
    normed, of_norm = jax.vjp(norm, x, params["scale"])
    whole, slopes = gather(normed), gather(slope)
    hidden, of_gelu = jax.vjp(jax.nn.gelu, whole @ params["up"])
    (of_hidden,) = of_gelu(slopes @ params["down"].T)
    of_up = jnp.einsum("bld,blh->dh", whole, of_hidden)
    of_down = jnp.einsum("blh,bld->hd", hidden, slopes)
    of_x, of_scale = of_norm(scatter(of_hidden @ params["up"].T))
    return {
        "scale": jax.lax.psum(of_scale, ("data", "model")),
        "up": jax.lax.psum(of_up, "data"),
        "down": jax.lax.psum(of_down, "data"),
    }, slope + of_x


def sequence_parallel_block(params, x, mesh):
    on_mesh = partial(jax.shard_map, mesh=mesh, check_vma=False)

    @jax.custom_vjp
    def block(params, x):
        return on_mesh(forward, in_specs=(SPECS, TOKENS), out_specs=TOKENS)(
            params, x
        )

    def both(params, x):
        return block(params, x), (params, x)

    def back(kept, slope):
        return on_mesh(
            backward,
            in_specs=(SPECS, TOKENS, TOKENS),
            out_specs=(SPECS, TOKENS),
        )(*kept, slope)

    block.defvjp(both, back)
    return block(params, x)
