"""Find what looks wrong in a layout: each rule is a function."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from jax.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding

from shardscope.arrays.finding import Finding
from shardscope.arrays.leaf import LeafLayout, axes_of
from shardscope.arrays.paths import pattern_of
from shardscope.arrays.shards import only_holder

# What is smaller costs little, wherever it is: most biases and scales.
LARGE = 2**16


# Of the bytes on a device, what is worth a look whatever its name is.
SHARE = 1 / 20


# Names of what goes with each parameter in training.
_STATE = {
    *("opt_state", "optimizer", "opt", "mu", "nu", "trace"),
    *("sum_of_squares", "acc_grads", "grads", "ema", "master"),
}


Leaves = Sequence["LeafLayout"]


# An array, the bytes at stake, and what looks wrong in words that are the
# same for arrays alike.
Found = tuple["LeafLayout", int, str]

# What the bytes of a rule are.
STAKES = {
    "replicated": "lost on each",
    "other_axes": "more or less than in other layers, on each",
    "optimizer_state": "lost on each",
    "one_device": "held on one device",
    "several_meshes": "held on each",
    "abstract_mesh": "planned on each",
}


Rule = Callable[[Leaves], Iterator[Found]]


def find(
    leaves: Leaves, ignore: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Apply all rules but those to ignore; the costliest comes first."""
    if isinstance(ignore, str):
        ignore = (ignore,)
    if unknown := set(ignore) - RULES.keys():
        raise ValueError(
            f"Unknown rule {sorted(unknown)[0]!r}. The rules are: "
            f"{', '.join(RULES)}"
        )
    alike: dict[tuple[str, str], list[tuple[LeafLayout, int]]]
    alike = defaultdict(list)
    for name, rule in RULES.items():
        for leaf, bytes_, why in rule(leaves) if name not in ignore else ():
            alike[name, why].append((leaf, bytes_))
    # Of the state of an optimizer, the rule about it says more.
    told = {
        leaf.path
        for (name, _), arrays in alike.items()
        for leaf, _ in arrays
        if name == "optimizer_state"
    }
    found = []
    for (name, why), arrays in alike.items():
        if name == "replicated":
            arrays = [each for each in arrays if each[0].path not in told]
        arrays.sort(key=lambda each: -each[1])
        if arrays:
            found.append(
                Finding(
                    name,
                    tuple(leaf.path for leaf, _ in arrays),
                    sum(leaf.repeats for leaf, _ in arrays),
                    sum(size for _, size in arrays),
                    why,
                    STAKES[name],
                )
            )
    return tuple(sorted(found, key=lambda finding: -finding.bytes))


def _parts(leaf: "LeafLayout") -> int:
    """Count the shards that an array is divided into."""
    if not isinstance(leaf.sharding, NamedSharding):
        return 1
    sizes = dict(leaf.sharding.mesh.shape)
    return math.prod(sizes[n] for names in axes_of(leaf) for n in names)


def _size(leaf: "LeafLayout") -> int:
    return leaf.bytes_per_device * leaf.repeats


def _is_replicated(leaf: "LeafLayout") -> bool:
    return (
        isinstance(leaf.sharding, NamedSharding)
        and not leaf.sharding.spec.unreduced
        and _parts(leaf) == 1
    )


def _is_stack(leaf: "LeafLayout") -> bool:
    """Tell whether an array is divided into whole experts, or stages."""
    first, *rest = axes_of(leaf) or ((),)
    return bool(first) and len(rest) > 1 and not any(rest)


def _on_meshes(leaves: Leaves) -> list["LeafLayout"]:
    return [x for x in leaves if isinstance(x.sharding, NamedSharding)]


def _mesh(leaf: "LeafLayout") -> Any:
    return getattr(leaf.sharding, "mesh", None)


def replicated(leaves: Leaves) -> Iterator[Found]:
    """Find large arrays that are replicated, where others are sharded.

    The others have the same name at the end of their path, such as
    "kernel", and as many axes. Or they are a quarter of the tree, and what
    is replicated takes a twentieth of the bytes on a device; for these,
    stacks of experts or stages are left aside, because the rest of such a
    model may be replicated on purpose. Sums that are
    not reduced are not replicated, and what is in the memory of hosts
    takes no device's. Parameters are compared without what ZeRO shards
    although they are replicated: the optimizer's state, gradients and
    averages, which are told by names that optax, Flax and others use.
    """
    everything = [
        leaf
        for leaf in _on_meshes(leaves)
        if leaf.same_as is None and not leaf.host_memory
    ]
    parameters = [leaf for leaf in everything if not _is_state(leaf)]
    yield from _replicated_among(parameters)
    for each in _replicated_among(everything):
        if _is_state(each[0]):
            yield each


def _is_state(leaf: "LeafLayout") -> bool:
    """Tell whether an array goes with a parameter in training."""
    return not _STATE.isdisjoint(leaf.path.split("."))


def _replicated_among(everything: list["LeafLayout"]) -> Iterator[Found]:
    """Find those of some arrays that are replicated, though large."""
    kinds: dict[tuple[str, int], list[LeafLayout]] = defaultdict(list)
    for leaf in everything:
        name = leaf.path.rpartition(".")[2]
        kinds[name, len(leaf.shape)].append(leaf)
    # Of the whole tree, what one device would hold alone.
    whole = sum(_size(leaf) * _parts(leaf) for leaf in everything)
    rest = [leaf for leaf in everything if not _is_stack(leaf)]
    sharded = sum(_size(x) * _parts(x) for x in rest if _parts(x) > 1)
    held = sum(map(_size, everything))
    for (name, _), alike in kinds.items():
        for leaf in alike:
            if not _is_replicated(leaf) or leaf.bytes_per_device < LARGE:
                continue
            size, others, named = _size(leaf), alike, f" named {name!r}"
            if max(map(_parts, alike)) == 1:
                if 4 * sharded < whole or size < SHARE * held:
                    continue
                others, named = rest, ""
            most = max(map(_parts, others))
            count = sum(x.repeats for x in others if _parts(x) > 1)
            noun, verb = (
                ("other", "is") if count == 1 else ("others", "are")
            )
            yield (
                leaf,
                size - size // most,
                f"replicated, while {count} {noun}{named} {verb} sharded, "
                f"up to {most} ways",
            )


def other_axes(leaves: Leaves) -> Iterator[Found]:
    """Find arrays that are sharded otherwise than in most other layers."""
    layers: dict[tuple[str, tuple[int, ...]], list[LeafLayout]]
    layers = defaultdict(list)
    for leaf in _on_meshes(leaves):
        if "*" in (pattern := pattern_of(leaf.path)):
            layers[pattern, leaf.shape].append(leaf)
    for (pattern, _), alike in layers.items():
        counts: Counter[Any] = Counter()
        for leaf in alike:
            counts[axes_of(leaf)] += leaf.repeats
        usual, count = counts.most_common(1)[0]
        # Half of them, and no one knows which half is right.
        if 2 * count <= counts.total():
            continue
        model = next(x for x in alike if axes_of(x) == usual)
        for leaf in alike:
            # What is replicated alone, the rule of that name tells.
            if axes_of(leaf) != usual and _parts(leaf) > 1:
                yield (
                    leaf,
                    leaf.repeats
                    * abs(leaf.bytes_per_device - model.bytes_per_device),
                    f"{leaf.where}, while {count} of {counts.total()} at "
                    f"{pattern} are {model.where}",
                )


def optimizer_state(leaves: Leaves) -> Iterator[Found]:
    """Find optimizer state that is laid out worse than its parameter.

    It takes more of a device's memory than with the parameter's spec, or
    as much by other axes, so that each step moves it. What takes less is
    sharded further on purpose, as in ZeRO.

    Below "opt_state", the longest end of a path that also ends the path of
    an array of the same shape elsewhere tells the parameter. Of several,
    such as a parameter and its moving average, it may be any.
    """
    parameters: dict[Any, list[LeafLayout]] = defaultdict(list)
    states = []
    for leaf in leaves:
        if leaf.deleted:
            continue
        names = tuple(leaf.path.split("."))
        if "opt_state" in names:
            states.append((names[names.index("opt_state") + 1 :], leaf))
        else:
            for start in range(len(names)):
                parameters[names[start:], leaf.shape].append(leaf)
    for names, leaf in states:
        ends = (names[start:] for start in range(len(names)))
        found = [parameters[end, leaf.shape] for end in ends if leaf.shape]
        params = next(filter(None, found), [])
        if not params or _placement(leaf) in map(_placement, params):
            continue
        param = min(params, key=lambda each: each.bytes_per_device)
        expected = replace(leaf, shard_shape=param.shard_shape)
        more = leaf.bytes_per_device - expected.bytes_per_device
        if more >= 0:
            yield (
                leaf,
                leaf.repeats * more,
                f"{leaf.where}, while the parameter of that name is "
                f"{param.where}{', so each step moves it' * (not more)}"
                ": shard it alike",
            )


def _placement(leaf: "LeafLayout") -> tuple[Any, ...]:
    return axes_of(leaf), leaf.devices


def one_device(leaves: Leaves) -> Iterator[Found]:
    """Find arrays on one device, while others are on a mesh of several.

    Scalars are not reported, though a call with a committed one raises the
    same error. What JAX takes for replicated is one device's, too, where
    the others hold zeros.
    """
    for leaf in leaves:
        if (
            not leaf.same_as
            and leaf.sharding
            and only_holder(leaf.sharding)
        ):
            yield (
                leaf,
                _size(leaf),
                f"{leaf.where} has its values, although JAX says that all "
                "do: the others hold zeros, and a call or device_put may "
                "take them. Constrain the result of a callback in the "
                "function that calls it",
            )
    sizes = [_mesh(leaf).size for leaf in _on_meshes(leaves)]
    if max(sizes, default=1) == 1:
        return
    for leaf in leaves:
        if leaf.same_as or not leaf.shape:
            continue
        if isinstance(leaf.sharding, SingleDeviceSharding):
            # As jit takes them, abstract arrays are committed.
            is_free = leaf.committed is False
            error = "raises an error unless in_shardings replicates it"
            what = "has to copy first" if is_free else error
            yield (
                leaf,
                _size(leaf),
                f"on one device, while others are on {max(sizes)}: a call "
                f"with both {what}",
            )


def several_meshes(leaves: Leaves) -> Iterator[Found]:
    """Find arrays that no call takes together with most of the others.

    Their mesh has other devices or another order of them; or, where axes
    are not Auto, other axes. Other Auto axes on the same devices are fine.
    """
    placed = [
        (leaf, _joins(_mesh(leaf)))
        for leaf in leaves
        if isinstance(_mesh(leaf), Mesh) and not leaf.same_as
    ]
    counts: Counter[Any] = Counter()
    for leaf, joins in placed:
        counts[joins] += leaf.repeats
    for usual, count in counts.most_common(1):
        others = f"{count} others"
        if count == 1:
            others = next(x.path for x, joins in placed if joins == usual)
        for leaf, joins in placed:
            if joins == usual:
                continue
            what = "other devices"
            call = "a jit without in_shardings that uses"
            error = "Received incompatible devices"
            if joins[0] == usual[0]:
                what = "other axes, or types of axes,"
                call = "an operation on"
                error = "Mesh for all inputs should be equal"
            elif {*joins[0]} == {*usual[0]}:
                what = "the same devices in another order"
            yield (
                leaf,
                _size(leaf),
                f"on a mesh of {what} than {others}: {call} both raises "
                f"{error!r}. If you need one, move what it takes to one "
                "mesh with device_put",
            )


def _joins(mesh: Any) -> tuple[Any, ...]:
    """Give what has to be the same of two meshes in one call."""
    is_auto = {*mesh.axis_types} == {AxisType.Auto}
    return (*mesh.devices.flat,), None if is_auto else mesh.abstract_mesh


def abstract_mesh(leaves: Leaves) -> Iterator[Found]:
    """Find what a set mesh gave an abstract mesh, in a target for Orbax.

    A tree that is all on such a mesh may be a plan, and one with arrays
    the arguments of a call.
    """
    on_devices = any(isinstance(_mesh(leaf), Mesh) for leaf in leaves)
    is_target = all(leaf.committed is None for leaf in leaves)
    for leaf in leaves if on_devices and is_target else ():
        # A mesh that one makes without devices knows no kind of them.
        if getattr(_mesh(leaf), "abstract_device", None):
            yield (
                leaf,
                _size(leaf),
                "on an abstract mesh, while others are on devices: Orbax "
                "can't restore to it. Give it a NamedSharding on the mesh "
                "of the others",
            )


_ALL = (
    *(replicated, other_axes, optimizer_state, one_device),
    *(several_meshes, abstract_mesh),
)
RULES: dict[str, Rule] = {rule.__name__: rule for rule in _ALL}
