import jax
from jax.sharding import PartitionSpec as P


def check(batch, n, count):
    size = jax.tree.leaves(batch)[0].shape[0]
    if size % (n * count) != 0:
        raise ValueError(f"{size} rows, {n} devices, {count} parts")


def accumulate_gradients(loss, mesh, count):
    def local(params, batch):
        parts = jax.tree.map(
            lambda x: x.reshape(count, len(x) // count, *x.shape[1:]), batch
        )
        mine = jax.lax.pcast(params, "data", to="varying")
        # The backward pass of the loop adds in the dtype of these.
        wide = jax.tree.map(lambda p: p.astype("float32"), mine)

        def mean_loss(wide):
            @jax.checkpoint
            def turn(total, part):
                own = jax.tree.map(
                    lambda w, p: w.astype(p.dtype), wide, params
                )
                return total + loss(own, part), None

            zero = jax.lax.pcast(0.0, "data", to="varying")
            total, _ = jax.lax.scan(turn, zero, parts)
            return total / count

        both = jax.lax.pmean(jax.value_and_grad(mean_loss)(wide), "data")
        return both[0], jax.tree.map(
            lambda g, p: g.astype(p.dtype), both[1], params
        )

    spread = jax.jit(
        jax.shard_map(
            local, mesh=mesh, in_specs=(P(), P("data")), out_specs=P()
        )
    )

    def function(params, batch):
        check(batch, mesh.shape["data"], count)
        return spread(params, batch)

    return function
