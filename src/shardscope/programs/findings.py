"""Find what looks wrong in a program: each rule is a function.

What looks wrong has a proof in the program, and a cost. What may be right
is a note, which says when it is.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from shardscope.arrays.finding import Finding
from shardscope.arrays.leaf import axes_of
from shardscope.arrays.paths import roll_up
from shardscope.hlo import names_of_parameters
from shardscope.lines import name_of
from shardscope.programs.arguments import Argument, owner_of
from shardscope.programs.collective import over_axes

if TYPE_CHECKING:
    from shardscope.programs.report import Program

# What is smaller costs little, and so does what is less than this part of
# what the program needs, or sends.
LARGE = 2**16
SHARE = 1 / 100
# No batch is as small as a random key, or the weights of a few features.
SMALL = 1024

# What jax calls products of matrices, without which no model is trained.
_PRODUCTS = ("dot_general", "conv_general_dilated")

# What has the shapes of the parameters, and is none.
_MOMENTS = r"opt|moment|\bema|average|trace|\b[mn]u\b"

# A path, the bytes at stake, and what there is to say in words that are
# the same for arrays alike.
Found = Iterator[tuple[str, int, str]]
Rules = tuple[Callable[["Program"], Found], ...]


def find(program: "Program", rules: Rules) -> tuple[Finding, ...]:
    """Apply rules; the costliest finding comes first."""
    found = []
    for rule in rules:
        stake, whole = "on each", program.memory.total
        if rule in _SENT:
            stake, whole = _SENT[rule], program.sent()
        alike = defaultdict(list)
        for path, size, why in rule(program):
            alike[why].append((path, size))
        for why, arrays in alike.items():
            sizes = {
                path: sum(size for _, size in same)
                for path, same in roll_up(arrays, lambda x: x[0], str)
            }
            paths = tuple(sorted(sizes, key=lambda path: -sizes[path]))
            total = sum(sizes.values())
            about = (rule.__name__, paths, len(arrays), total, why, stake)
            if total >= max(LARGE, SHARE * whole):
                found.append(Finding(*about))
    return tuple(sorted(found, key=lambda finding: -finding.bytes))


# --- What rules ask ---


def _at(line: str) -> str:
    """Name a line, if it is known."""
    return name_of(line) if line else "unknown line"


def _state(program: "Program") -> list[Argument]:
    """List the arrays that a training step takes and returns.

    They are donated, or one of them counts the steps. A program without
    products may only move them.
    """
    state = [each for each in program.arguments or () if each.returned]
    if any(name in program.text for name in _PRODUCTS) and any(
        each.donated or each.wanted.type in ("int32[]", "uint32[]")
        for each in state
    ):
        return state
    return []


def _batch(program: "Program") -> list[Argument]:
    """List the arrays of the batch of a training step: its last argument.

    Without what is small, such as a random key.
    """
    taken = program.arguments if _state(program) else ()
    given = [x for x in taken or () if not x.returned]
    given = [x for x in given if x.wanted.shape and x.wanted.nbytes > SMALL]
    last = [owner_of(each.wanted.path) for each in given][-1:]
    return [x for x in given if owner_of(x.wanted.path) in last]


def _unused(program: "Program") -> list[Argument]:
    """List the donated arrays whose memory no result takes."""
    head = program._module.head.partition("\n")[0]
    taken = re.findall(r"\}: \((\d+), \{\}, (?:may|must)-alias\)", head)
    # What jax passes itself comes first.
    first = len(names_of_parameters(program._module)) - len(program._paths)
    return [
        each
        for each in program.arguments or ()
        if each.donated and str(first + each.number) not in taken
    ]


def _moved(program: "Program") -> Iterator[tuple[Argument, str]]:
    """Give the state that comes back sharded otherwise, and say how."""
    for each in _state(program):
        before, after = each.wanted, each.returned
        if after and axes_of(before) != axes_of(after):
            yield each, f"{before.where}, but comes back as {after.where}"


def _held(each: Argument) -> tuple[str, int]:
    return each.wanted.path, each.wanted.bytes_per_device


# --- What looks wrong ---


def captured(program: "Program") -> Found:
    """Find arrays that the function reads from outside."""
    why = "captured from outside, so whole on each: pass it as an argument"
    for each in program.constants:
        if each.captured:
            where = f" at {name_of(each.line)}" if each.line else ""
            yield f"{each.array}{where}", each.bytes, why


def copied(program: "Program") -> Found:
    """Find arguments that have to be copied to the devices first.

    Not a batch of NumPy of which each device gets its slice, because no
    other way copies less.
    """
    for each in program.arguments or ():
        path, held = _held(each)
        whole = held == each.wanted.nbytes < each.transfer
        why = f"{each.given}, copied to the devices before the call"
        if each.transfer and (whole or each.given != "a NumPy array"):
            how = "device_put it first, straight to its sharding"
            yield path, each.transfer, f"{why}: {how}"


def resharded(program: "Program") -> Found:
    """Find state that XLA gives back sharded otherwise than it went in."""
    how = "so the next call compiles again: shard it so before, or keep it"
    for each, why in _moved(program):
        if not each.asked:
            yield *_held(each), f"{why}, {how} with out_shardings"


def retyped(program: "Program") -> Found:
    """Find donated state whose memory the new state can't take."""
    for each in _unused(program):
        before, after = each.wanted, each.returned
        if after and after.dtype != before.dtype:
            why = f"{before.dtype}, but comes back as {after.dtype}"
            yield *_held(each), f"{why}, which can't take its memory"


def in_each_turn(program: "Program") -> Found:
    """Find sums over devices in a loop that could stand after it."""
    for each in program.communication:
        if each.avoidable:
            why = (
                f"{over_axes(each)}, {each.times} times in a loop that only"
            )
            how = "adds up the results: in a shard_map, run it once, after"
            yield _at(each.line), each.avoidable, f"{why} {how} the loop"


def unplaced(program: "Program") -> Found:
    """Find the batch of a training step whose sharding XLA has chosen.

    On a mesh of one axis, it may be right that each device needs all rows.
    """
    batch = _batch(program)
    shared = [n for n in program.axes.values() if n > 1]
    held = sum(each.wanted.nbytes for each in batch)
    for each in batch if all(x.transfer for x in batch) else ():
        by = axes_of(each.wanted)
        if not by[0] and (len(shared) > 1 or any(by)):
            why = f"not placed, so XLA takes it as {each.wanted.where}"
            why += ": device_put it, its rows over a mesh axis"
            part = program.memory.total * each.wanted.nbytes // held
            yield (
                each.wanted.path,
                part,
                f"{why}, or P() in tensor parallelism",
            )


def same_work(program: "Program") -> Found:
    """Find the batch of a training step that divides no work.

    It is whole on each device, and nothing is sent along some mesh axis:
    the devices along it compute the same.
    """
    batch = _batch(program)
    used = {
        name
        for each in program.communication
        for names in (each.axes, *each.aliases)
        # What is over no known axis may be over any.
        for name in names or program.axes
    }
    idle = [x for x, n in program.axes.items() if n > 1 and x not in used]
    # One that names an axis is sharded, if only over one device.
    specs = [getattr(each.wanted.sharding, "spec", ()) for each in batch]
    why = f"not sharded, so all along {' and '.join(idle)} compute the same"
    if idle and not any(map(any, specs)):
        for each in batch:
            part = program.memory.total // len(batch)
            yield each.wanted.path, part, f"{why}: shard the batch over it"


# --- What may be right ---


def kept(program: "Program") -> Found:
    """Find state that comes back and is not donated."""
    why = "not donated, though a new one comes back: right if you need both"
    for each in _state(program):
        if not each.donated:
            yield *_held(each), why


def freed(program: "Program") -> Found:
    """Find donated arrays that have no result like them."""
    why = "donated, but no result takes its memory"
    for each in _unused(program):
        if not each.returned:
            yield *_held(each), f"{why}: right if it only has to be freed"


def reduced_whole(program: "Program") -> Found:
    """Find gradients of shards that are added up whole, as on CPU."""
    summed = {
        (one.axes, one.group, array.partition("[")[2])
        for one in program.communication
        if one.kind == "all-reduce" and "backward" in one.direction
        for array in one.arrays
    }
    for each in _state(program) if program.chip == "cpu" else ():
        by, held = axes_of(each.wanted), each.wanted.shard_shape or ()
        for axes, group, sizes in summed:
            whole = [
                n * (group if {*names} & {*axes} else 1)
                for n, names in zip(held, by, strict=True)
            ]
            # The moments have the shapes of their parameters.
            if (
                sizes == f"{','.join(map(str, whole))}]"
                and whole != [*held]
                and not re.search(_MOMENTS, each.wanted.path)
            ):
                why = f"gradient added up whole over {' and '.join(axes)}"
                how = "right on CPU, and for GPUs it is reduce-scattered"
                yield *_held(each), f"{why}: {how}"


def lost(program: "Program") -> Found:
    """Find the first line of the forward pass whose result loses an axis.

    A weight that is merged, as in LoRA, is not told from an activation.
    """
    found = [
        each
        for each in program.lost
        if each.kind != "whole" and not each.backward and each.because
    ]
    for first in found[:1]:
        rest = len({each.line for each in found}) - 1
        others = f" and {rest} other line{'s' * (rest > 1)}" * (rest > 0)
        why = f"lost '{first.axis}' because of {first.because}: right "
        if first.kind == "asked":
            why += "if what follows needs it whole"
        else:
            why += "for experts or merged weights, else constrain it"
        size = sum(each.bytes * each.count for each in found)
        yield f"{_at(first.line)}{others}", size, why


def moved(program: "Program") -> Found:
    """Find state that the call asks to have sharded otherwise."""
    how = "as out_shardings ask: right if it isn't passed in again"
    for each, why in _moved(program):
        if each.asked:
            yield *_held(each), f"{why}, {how}"


def ignored(program: "Program") -> Found:
    """Find Modules on which no result depends."""
    why = "not used: right in an evaluation, but in training jax.jit loses"
    for path, size in program._ignored:
        yield path, size, f"{why} what is written to it: use nnx.jit"


def nothing_sharded(program: "Program") -> Found:
    """Find arguments all of whose arrays are whole on several devices."""
    owners: defaultdict[str, list[Argument]] = defaultdict(list)
    for each in program.arguments or ():
        owners[owner_of(each.wanted.path)].append(each)
    batch = _batch(program)
    for arrays in owners.values():
        count = len(arrays[0].wanted.devices)
        held = sum(each.wanted.bytes_per_device for each in arrays)
        if count < 2 or held < sum(x.wanted.nbytes for x in arrays):
            continue
        why, part = "right for a model in data parallelism", 0
        if arrays[-1] in batch:
            # However small it is, all that is computed depends on it.
            part = program.memory.total // len(arrays)
            why = "right in tensor parallelism, else shard its rows"
        why = f"whole on each of {count} devices: {why}"
        for each in arrays:
            path, size = _held(each)
            yield path, max(size, part), why


_ARRAYS = (captured, copied, resharded, retyped)
WRONG: Rules = (*_ARRAYS, in_each_turn, unplaced, same_work)
NOTED: Rules = (
    *(kept, freed, moved, ignored, reduced_whole, lost),
    nothing_sharded,
)
# What is at stake where it isn't memory.
_SENT = {copied: "copied", in_each_turn: "sent in vain"}
