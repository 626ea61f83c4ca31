import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P


def mixed_precision_step(loss, rate, mesh):
    n = mesh.shape["data"]

    def flat(leaves, first):
        return jnp.concatenate(
            [leaf.reshape(*first, -1) for leaf in leaves], axis=len(first)
        )

    def cut(buffer, shapes):
        ends = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
        return jnp.split(buffer, ends, axis=-1)

    def local(shards, batch):
        leaves, tree = jax.tree.flatten(shards)
        shapes = [leaf.shape for leaf in leaves]
        own = flat(leaves, ())
        rows = jax.lax.all_gather(own.astype(jnp.bfloat16), "data")
        whole = [
            part.reshape(n * shape[0], *shape[1:])
            for part, shape in zip(cut(rows, shapes), shapes, strict=True)
        ]
        value, gradients = jax.value_and_grad(loss)(
            jax.tree.unflatten(tree, whole), batch
        )
        parts = [
            each.astype(jnp.float32).reshape(n, -1)
            for each in jax.tree.leaves(gradients)
        ]
        total = jax.lax.psum_scatter(flat(parts, (n,)), "data") / n
        parts = cut(own - rate * total, shapes)
        new = [
            part.reshape(shape)
            for part, shape in zip(parts, shapes, strict=True)
        ]
        value = jax.lax.pmean(value, ("data",))
        return jax.tree.unflatten(tree, new), value

    rows, everywhere = (NamedSharding(mesh, P(*s)) for s in (["data"], []))
    return jax.jit(
        jax.shard_map(
            local,
            mesh=mesh,
            in_specs=(P("data"), P("data")),
            out_specs=(P("data"), P()),
        ),
        in_shardings=(rows, rows),
        out_shardings=(rows, everywhere),
        donate_argnums=0,
    )
