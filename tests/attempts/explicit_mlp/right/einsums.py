"""Einsums, a loop, and shardings that are made of the type of x."""

import jax
import jax.numpy as jnp


def explicit_mlp(params, x):
    like = jax.typeof(x).sharding
    spec = like.spec
    each = like.update(spec=spec.update(unreduced={"model"}))
    x_in = jax.sharding.reshard(
        x, like.update(spec=spec.update(reduced={"model"}))
    )
    total = None
    for branch in params:
        hidden = jnp.einsum("bd,dh->bh", x_in, branch["up"])
        hidden = jax.nn.gelu(hidden, approximate=True)
        term = jnp.einsum(
            "bh,hd->bd", hidden, branch["down"], out_sharding=each
        )
        total = term if total is None else total + term
    return jax.sharding.reshard(total, like) + x
