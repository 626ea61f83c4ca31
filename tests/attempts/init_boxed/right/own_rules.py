"""Names that are resolved by hand, and a program for each array."""

from functools import partial

import jax
from flax import linen as nn
from jax.sharding import NamedSharding, PartitionSpec


def is_box(node):
    return isinstance(node, nn.Partitioned)


def axes_of(entry):
    return {entry} if isinstance(entry, str) else {*(entry or ())}


def by_rules(names, rules):
    missing = [
        name
        for name in names
        if name is not None and name not in [rule[0] for rule in rules]
    ]
    if missing:
        raise ValueError(f"there is no rule for {', '.join(missing)}")
    spec, done, taken = [None] * len(names), set(), set()
    for name, entry in rules:
        if (
            name in names
            and name not in done
            and not axes_of(entry) & taken
        ):
            spec[names.index(name)] = entry
            done.add(name)
            taken |= axes_of(entry)
    return spec


def init_boxed(layer, key, x, mesh, rules=()):
    abstract = jax.eval_shape(lambda: layer.init(key, x))
    flat, treedef = jax.tree.flatten(abstract, is_leaf=is_box)

    def only(index, key, x):
        variables = layer.init(key, x)
        leaf = jax.tree.leaves(variables, is_leaf=is_box)[index]
        return leaf.value if is_box(leaf) else leaf

    made = []
    for index, leaf in enumerate(flat):
        spec = ()
        if isinstance(leaf, nn.LogicallyPartitioned):
            spec = by_rules(leaf.names, rules)
        elif is_box(leaf):
            spec = leaf.names
        sharding = NamedSharding(mesh, PartitionSpec(*spec))
        array = jax.jit(partial(only, index), out_shardings=sharding)(
            key, x
        )
        made.append(leaf.replace_boxed(array) if is_box(leaf) else array)
    return jax.tree.unflatten(treedef, made)
