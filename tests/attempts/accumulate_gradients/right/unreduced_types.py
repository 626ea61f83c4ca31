import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P


def accumulate_gradients(loss, mesh, count):
    """Let the type of the sums say that they have to be added up."""
    n = mesh.shape["data"]
    explicit = Mesh(
        mesh.devices,
        mesh.axis_names,
        axis_types=(AxisType.Explicit,) * len(mesh.axis_names),
    )
    terms = P(unreduced={"data"})

    def on(spec):
        return NamedSharding(explicit, spec)

    @jax.shard_map(
        mesh=explicit, in_specs=(P(), P("data")), out_specs=terms
    )
    def gradient(params, part):
        own = jax.lax.pcast(params, "data", to="varying")
        found = jax.value_and_grad(loss)(own, part)
        wide = jax.tree.map(lambda x: x.astype(jnp.float32), found)
        return jax.lax.pcast(wide, "data", to="unreduced")

    def split(x):
        rest = x.shape[1:]
        parts = x.reshape(n, count, -1, *rest, out_sharding=on(P("data")))
        parts = parts.swapaxes(0, 1)
        spec = on(P(None, "data"))
        return parts.reshape(count, -1, *rest, out_sharding=spec)

    @jax.jit
    def run(params, batch):
        def turn(total, part):
            new = gradient(params, part)
            return jax.tree.map(jnp.add, total, new), None

        start = jax.tree.map(
            lambda p: jax.reshard(jnp.zeros(p.shape), on(terms)),
            (jnp.zeros(()), params),
        )
        total, _ = jax.lax.scan(turn, start, jax.tree.map(split, batch))
        value, grads = jax.tree.map(
            lambda x: jax.reshard(x, on(P())) / (n * count), total
        )
        return value, jax.tree.map(
            lambda g, p: g.astype(p.dtype), grads, params
        )

    def function(params, batch):
        for x in jax.tree.leaves(batch):
            if len(x) % (n * count):
                raise ValueError(
                    f"rows: {len(x)}, devices: {n}, count: {count}"
                )
        return run(
            jax.device_put(params, on(P())),
            jax.device_put(batch, on(P("data"))),
        )

    return function
