"""Read a compiled program from its text in HLO.

In comes the text that XLA prints for a program. Out come its instructions,
how often a call runs each, the argument that a value is a part of, and the
lines of code that it comes from. Nothing here knows JAX, or a mesh.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from shardscope.lines import is_library, is_ours

# --- Instructions ---

OP_NAME = re.compile(r'op_name="([^"]*)"')
_NAME = re.compile(r"%([\w.-]+)")
_OPCODE = re.compile(r" ([a-z][a-z0-9-]*)\(")
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_SIZES = re.compile(r"\[([\d,<=]*)\]")
_PARAMETER = re.compile(r" parameter\((\d+)\)")
_CONSTANT = re.compile(r" constant\((\d+)\)")
_INDEX = re.compile(r"\), index=(\d+)")
_LOOP = re.compile(r"\b(condition|body)=%([\w.-]+)")
_CALLED = re.compile(
    r"\b(?:calls|to_apply|body|condition|branch_computations"
    r"|true_computation|false_computation|called_computations)="
    r"(\{[^}]*\}|%[\w.-]+)"
)


@dataclass(frozen=True, slots=True)
class Instruction:
    """A line of a program.

    Attributes:
        name: Its name, which is unique in its computation.
        type: The type of its result, such as ``f32[8,4]{1,0}``, or a
            tuple of types.
        opcode: What it does, such as ``all-gather-start``.
        operands: The names of what it takes.
        text: All to the right of the equals sign, attributes included.
        is_root: Whether its result is that of its computation.
    """

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    text: str
    is_root: bool

    @property
    def called(self) -> list[str]:
        """The computations that it calls, in order."""
        # Most instructions call none, and this is quicker to see.
        if "=%" not in self.text and "={%" not in self.text:
            return []
        return [
            name
            for names in _CALLED.findall(self.text)
            for name in _NAME.findall(names)
        ]

    @property
    def loop(self) -> dict[str, str]:
        """The computations of a loop, by ``condition`` and ``body``."""
        return dict(_LOOP.findall(self.text))

    @property
    def number(self) -> int | None:
        """The number of a parameter among those of its computation."""
        return _number(_PARAMETER, self.text)

    @property
    def index(self) -> int | None:
        """The place in a tuple that a get-tuple-element takes."""
        return _number(_INDEX, self.text)

    @property
    def op_name(self) -> str:
        """The path of transformations that it comes from, or nothing."""
        named = OP_NAME.search(self.text)
        return named[1] if named else ""


# The instructions of a function by their names, in the order in which a
# device runs them: a compiled program is scheduled.
Computation = Mapping[str, Instruction]


@dataclass(frozen=True)
class Module:
    """A compiled program.

    Attributes:
        computations: Its functions, by their names.
        entry: The name of the one that a call runs.
        head: What stands before them: what is donated, and the tables of
            files and lines.
    """

    computations: Mapping[str, Computation]
    entry: str
    head: str

    @cached_property
    def roots(self) -> Mapping[str, str]:
        """The instruction whose result each computation returns."""
        return {
            name: root.name
            for name, computation in self.computations.items()
            if (root := root_of(computation))
        }

    @classmethod
    def of(cls, text: str) -> "Module":
        """Read the text of a program."""
        computations: dict[str, dict[str, Instruction]] = {}
        entry, lines = "", dict[str, Instruction]()
        for line in text.splitlines():
            if line.startswith("  "):
                if read := _instruction(line):
                    lines[read.name] = read
            elif line.endswith("{") and (name := _NAME.search(line)):
                lines = computations[name[1]] = {}
                if line.startswith("ENTRY"):
                    entry = name[1]
        return cls(computations, entry, text.partition("\n\n\n")[0])


def root_of(computation: Computation) -> Instruction | None:
    """Give the instruction whose result a computation returns."""
    return next(
        (each for each in computation.values() if each.is_root), None
    )


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    """Read a number, if there is one."""
    found = pattern.search(text)
    return int(found[1]) if found else None


def _instruction(line: str) -> Instruction | None:
    """Read a line of a computation."""
    left, _, text = line.partition(" = ")
    opcode = _OPCODE.search(text)
    if not opcode:
        return None
    name = left.rpartition("%")[2]
    operands = text[opcode.end() :].partition(")")[0]
    return Instruction(
        name,
        text[: opcode.start()],
        opcode[1],
        tuple(_NAME.findall(operands)) if "%" in operands else (),
        text,
        left.startswith("  ROOT "),
    )


def arrays_in(type_: str) -> list[str]:
    """List the arrays of a type, such as ``"f32[8,4]"``."""
    return [f"{kind}[{sizes}]" for kind, sizes in _ARRAY.findall(type_)]


def sizes_in(type_: str) -> list[int]:
    """Read the sizes of the first array of a type."""
    found = _SIZES.search(type_)
    return [int(n) for n in re.findall(r"\d+", found[1])] if found else []


def bytes_in(array: str) -> int:
    """Count the bytes of an array such as ``"f32[8,4]"``."""
    kind = array.partition("[")[0]
    bits = 8 if kind == "pred" else int(re.findall(r"\d+", kind)[0])
    return -(-math.prod(sizes_in(array)) * bits // 8)


# --- How often loops turn ---

_NOTED = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


def trips_of(
    loop: Instruction,
    caller: Computation,
    computations: Mapping[str, Computation],
) -> int | None:
    """Say how often a loop turns, or None if the program does not.

    XLA notes it for CPUs and GPUs. In a program for TPUs it has to be read:
    a counter starts at a constant, a constant is added in each turn, and
    it ends at another.
    """
    if noted := _NOTED.search(loop.text):
        return int(noted[1])
    names = loop.loop
    if not loop.operands or len(names) < 2:
        return None
    condition = computations[names["condition"]]
    body = computations[names["body"]]
    compared = root_of(condition)
    if (
        compared is None
        or compared.opcode != "compare"
        or "direction=LT" not in compared.text
    ):
        return None
    counter, limit = (_computing(condition, n) for n in compared.operands)
    at = counter.index if counter else None
    end = _constant(limit)
    state, after = _computing(caller, loop.operands[0]), root_of(body)
    if at is None or end is None or state is None or after is None:
        return None
    if at >= min(len(state.operands), len(after.operands)):
        return None
    first = _constant(_computing(caller, state.operands[at]))
    added = _computing(body, after.operands[at])
    if first is None or added is None or added.opcode != "add":
        return None
    before, amount = (_computing(body, name) for name in added.operands)
    step = _constant(amount)
    if before is None or before.index != at:
        return None
    return max(0, -((first - end) // step)) if step else None


def _computing(computation: Computation, name: str) -> Instruction | None:
    """Give what computes a value; what it copies, if it is a copy."""
    found = computation.get(name)
    if found and found.opcode == "copy":
        return _computing(computation, found.operands[0])
    return found


def _constant(instruction: Instruction | None) -> int | None:
    """Read a constant."""
    return _number(_CONSTANT, instruction.text) if instruction else None


# --- What a call runs, and how often ---


@dataclass(frozen=True)
class Run:
    """An instruction that a call runs.

    Attributes:
        instruction: The instruction.
        within: The name of its computation.
        callers: The instructions that call this computation, each with
            the name of the computation that it is in, innermost first.
        times: How often a call runs it.
        counted: Whether the program says how often: not in a branch, nor
            in a loop whose end depends on data.
        bounded: Whether it runs at most ``times`` times: not in a loop
            whose end depends on data.
    """

    instruction: Instruction
    within: str
    callers: tuple[tuple[str, Instruction], ...] = ()
    times: int = 1
    counted: bool = True
    bounded: bool = True

    @property
    def origin(self) -> Instruction:
        """The innermost that says where it comes from: it, or a caller."""
        outwards = [self.instruction, *(each for _, each in self.callers)]
        named = (each for each in outwards if each.op_name)
        return next(named, outwards[-1])


def runs_of(
    module: Module, is_wanted: Callable[[Instruction], bool]
) -> list[Run]:
    """Find the wanted instructions that a call runs, through all calls.

    Args:
        module: The program.
        is_wanted: Tells whether an instruction is wanted. What a wanted
            one calls is not looked at.
    """
    computations = module.computations

    @cache
    def within(name: str) -> list[Run]:
        found: list[Run] = []
        caller = computations.get(name, {})
        for each in caller.values():
            if is_wanted(each):
                found.append(Run(each, name))
                continue
            inner = [x for other in each.called for x in within(other)]
            # Most call nothing that is wanted.
            if not inner:
                continue
            is_loop = each.opcode == "while"
            trips = trips_of(each, caller, computations) if is_loop else 1
            # Of a conditional only one branch runs.
            counted = trips is not None and each.opcode != "conditional"
            found += [
                Run(
                    run.instruction,
                    run.within,
                    (*run.callers, (name, each)),
                    run.times * (1 if trips is None else trips),
                    run.counted and counted,
                    run.bounded and trips is not None,
                )
                for run in inner
            ]
        return found

    return within(module.entry)


# --- Which argument a value is a part of ---

# Each element of the result is an element of the operands at these places,
# perhaps in another dtype, or a constant that pads them.
_MOVES: Mapping[str, slice] = {
    **dict.fromkeys(
        (
            "all-gather",
            "async-update",
            "bitcast",
            "broadcast",
            "collective-broadcast",
            "collective-permute",
            "convert",
            "copy",
            "dynamic-slice",
            "opt-barrier",
            "pad",
            "reduce-precision",
            "reshape",
            "reverse",
            "slice",
            "transpose",
        ),
        slice(1),
    ),
    "all-to-all": slice(None),
    "concatenate": slice(None),
    "dynamic-update-slice": slice(2),
    "select": slice(1, 3),
    # They come from no operand at all.
    "constant": slice(0),
    "iota": slice(0),
}
# What they call gives their result.
_CALLS = ("async", "call", "conditional", "fusion")


class _Value(NamedTuple):
    """A value in a call of a program.

    Attributes:
        name: The instruction that computes it.
        at: Its place in the result, if this is a tuple.
        within: The computation of the instruction.
        callers: What calls this computation, innermost first, each with
            the name of its computation.
    """

    name: str
    at: tuple[int, ...]
    within: str
    callers: tuple[tuple[str, str], ...]


# What jax writes after a name: ``['kernel']`` or ``[0]``. A key with a dot
# in it stays, because without brackets it would read as two.
_KEY = re.compile(r"\[(?:'([^'.\\]*)'|([^\]'.]+))\]")


def names_of_parameters(
    module: Module, paths: Sequence[str] = ()
) -> dict[int, str]:
    """Name the parameters of a program, by their numbers.

    Args:
        module: The program.
        paths: The paths of the arguments that it uses, in its order.
            Without, or where one is empty, it is what XLA notes.
    """
    names = {
        each.number: _dotted(each.op_name)
        for each in module.computations.get(module.entry, {}).values()
        if each.opcode == "parameter" and each.number is not None
    }
    # What jax passes itself, such as the order of effects, comes first.
    start = len(names) - len(paths)
    given = {at: path for at, path in enumerate(paths, start) if path}
    return names | given


def _dotted(name: str) -> str:
    """Write ``params['w']``, as XLA notes it, as ``params.w``."""
    # The array of a Variable.
    name = name.replace("\\'", "'").removesuffix(".value")
    return _KEY.sub(lambda key: f".{key[1] or key[2]}", name)


def parameter_of(run: Run, name: str, module: Module) -> int | None:
    """Find the parameter of a program that an operand is a part of.

    Args:
        run: An instruction that the program runs.
        name: One of its operands.
        module: The program.

    Returns:
        The number of the parameter, or None if the operand is computed,
        is made of several parameters, or can't be followed.
    """
    callers = tuple((within, each.name) for within, each in run.callers)
    left = [_Value(name, (), run.within, callers)]
    seen, found = set(left), set[int | None]()
    while left:
        value = left.pop()
        computed_by = module.computations[value.within].get(value.name)
        if computed_by is None:
            return None
        if computed_by.opcode == "parameter" and not value.callers:
            found.add(computed_by.number)
            continue
        origins = _values_behind(value, computed_by, module)
        if origins is None:
            return None
        # In a loop, a value may come from itself in the turn before.
        new = set(origins) - seen
        seen |= new
        left += new
    return found.pop() if len(found) == 1 else None


def _values_behind(
    value: _Value, computed_by: Instruction, module: Module
) -> Iterable[_Value] | None:
    """Give what a value is a copy or part of, or None if it is computed."""
    name, at, within, callers = value
    opcode, operands = computed_by.opcode, computed_by.operands
    if opcode.endswith("-start"):
        opcode, at = opcode.removesuffix("-start"), at[1:]
    if opcode == "parameter":
        return _values_taken(value, computed_by, module)
    if opcode == "get-tuple-element" and computed_by.index is not None:
        at = (computed_by.index, *at)
    elif opcode.endswith("-done"):
        # The start gives more than the result, which is all that is read.
        at = (0, *at)
    elif at and opcode in ("tuple", "all-gather"):
        operands, at = operands[at[0] :][:1], at[1:]
    elif opcode == "while" or opcode in _CALLS:
        results = [
            _Value(root, at, called, ((within, name), *callers))
            for called in _computations_giving(computed_by)
            if (root := module.roots.get(called))
        ]
        if opcode != "while":
            return results
        # A loop that does not turn gives what it takes.
        return [*results, _Value(operands[0], at, within, callers)]
    elif opcode in _MOVES:
        operands = operands[_MOVES[opcode]]
    else:
        return None
    return [_Value(each, at, within, callers) for each in operands]


def _computations_giving(caller: Instruction) -> list[str]:
    """Give the computations that a result comes from."""
    if caller.opcode == "while":
        return [caller.loop["body"]]
    return caller.called


def _values_taken(
    value: _Value, parameter: Instruction, module: Module
) -> Iterable[_Value]:
    """Give what a computation takes as a parameter."""
    (outside, name), *callers = value.callers
    caller = module.computations[outside][name]
    operands: Iterable[str] = caller.operands
    if caller.opcode == "conditional":
        # The first operand says which branch is taken.
        branches = zip(caller.called, caller.operands[1:], strict=False)
        operands = [
            each for called, each in branches if called == value.within
        ]
    else:
        operands = caller.operands[parameter.number :][:1]
    given = [
        _Value(each, value.at, outside, tuple(callers)) for each in operands
    ]
    if caller.opcode != "while":
        return given
    # It also takes what the turn before gives.
    return given + [
        value._replace(name=root, within=body)
        for body in _computations_giving(caller)
        if (root := module.roots.get(body))
    ]


# --- Lines of code ---


def direction_of(op_name: str) -> str:
    """Tell forward from backward by the path of transformations."""
    words = []
    # A combined instruction has the paths of its parts.
    for part in op_name.split(":"):
        if "rematted_computation" in part:
            words.append("rematerialized")
        elif "transpose(" in part:
            words.append("backward")
        elif "jvp(" in part:
            words.append("forward")
    return ", ".join(dict.fromkeys(words))


class Frame(NamedTuple):
    """A line that called what an instruction comes from.

    Attributes:
        line: The file and the number of the line, ``"train.py:31"`` with
            its folder.
        function: The name of the function that the line is in.
    """

    line: str
    function: str


class Sources:
    """The tables of files, functions and lines in a program's head."""

    def __init__(self, head: str) -> None:
        files = _quoted_names(head, "FileNames")
        functions = _quoted_names(head, "FunctionNames")
        self._lines = {
            number: (files[file], functions.get(function, ""), line)
            for number, file, function, line in re.findall(
                r"^(\d+) \{file_name_id=(\d+) function_name_id=(\d+) "
                r".*?\bline=(\d+)",
                head,
                re.M,
            )
        }
        self._frames = {
            number: (line, parent)
            for number, line, parent in re.findall(
                r"^(\d+) \{file_location_id=(\d+) parent_frame_id=(\d+)",
                head,
                re.M,
            )
        }

    def of(self, text: str) -> str:
        """Give the innermost line that is of no library."""
        return next((each.line for each in self.frames(text)), "")

    def frames(self, text: str) -> tuple[Frame, ...]:
        """Give the lines of no library, from the innermost outwards."""
        found_id = re.search(r"stack_frame_id=(\d+)", text)
        frame = found_id[1] if found_id else ""
        found: dict[str, Frame] = {}
        while frame in self._frames:
            line, parent = self._frames[frame]
            file, function, number = self._lines[line]
            # Frames outside of program() belong to whoever inspects the
            # function, not to the function.
            if found and is_ours(file):
                break
            if not is_library(file):
                at = f"{file}:{number}"
                short = function.rpartition("<locals>.")[2]
                # The call of a gradient is noted several times.
                found.setdefault(at, Frame(at, short))
            # They are counted from one, parents from two.
            frame = str(int(parent) - 1)
        return tuple(found.values())


def _quoted_names(head: str, title: str) -> dict[str, str]:
    """Read a table of quoted names."""
    table = head.partition(f"{title}\n")[2].partition("\n\n")[0]
    return dict(re.findall(r'^(\d+) "(.*)"$', table, re.M))
