"""How much a compiled program computes: its matrix products."""

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from shardscope.hlo import (
    Instruction,
    Module,
    Run,
    Sources,
    direction_of,
    runs_of,
    sizes_in,
)
from shardscope.lines import short
from shardscope.tables import Table, html_of, numbers_table, text_of

# How many lines are shown, those with the most FLOPs.
_SHOWN = 8
_CONTRACTED = re.compile(r"\blhs_contracting_dims=\{([\d,]*)\}")
_LABELS = re.compile(r"\bdim_labels=(\w+)_(\w+)->(\w+)")
_WINDOW = re.compile(r"\bwindow=\{([^}]*)\}")
_GROUPS = re.compile(r"\b(feature|batch)_group_count=(\d+)")
_TARGET = re.compile(
    r'custom_call_target="__(cublas|cudnn)\$(?!fmha)([^"]*)"'
)
_KERNEL = re.compile(
    r'custom_call_target="(?:tpu_custom_call|\w*(?:fmha|mosaic|triton)\w*'
    r'|__cudnn\$fmha\w*)"'
)
_CONFIG = re.compile(r"backend_config=(\{.*\})")
# They give a convolution's input, or its filter, instead of its result.
_BACKWARD = {
    "convBackwardInput": (2, 1, 0),
    "convBackwardFilter": (0, 2, 1),
}


@dataclass(frozen=True, repr=False)
class Flops:
    """How much a device computes in a call, printed as a table.

    Matrix products and convolutions are counted, also in fusions and in
    the libraries that XLA calls on GPUs, with two FLOPs for each product
    of two numbers that is added up. A product of complex numbers counts as
    one, or as the real products that XLA makes of it on TPU. A loop counts
    each of its turns, and what is rematerialized counts again. What works
    element by element, such as a softmax or an optimizer's update, is not
    counted, and XLA may make an outer product, or the product of a matrix
    and a vector, such a loop. FFTs and decompositions are counted only
    where XLA makes products of them, as on TPU. Kernels are not counted.
    They may be yours, or XLA's, which on TPU may compute a part of
    attention in one.

    Attributes:
        lines: The FLOPs of a call on one device, by line and direction
            as in :class:`Collective`, the most first. For example,
            ``{("train.py:31", "backward"): 4096}``.
        sent: The bytes that a device sends in a call, as in ``sent`` of
            :class:`Program`.
        kernels: How many kernels run in a call.
        counted: Whether a call computes exactly this much. If not, some of
            it is in a branch that may not be taken, or in a loop whose end
            depends on data.
        bounded: Whether a call computes at most this much. If not, it is
            what one turn of such a loop computes.
    """

    lines: Mapping[tuple[str, str], int]
    sent: int
    kernels: int
    counted: bool
    bounded: bool

    @property
    def total(self) -> int:
        """FLOPs of a call on one device."""
        return sum(self.lines.values())

    @property
    def per_byte_sent(self) -> float | None:
        """FLOPs for each byte that a device sends, or None without any.

        This is the arithmetic intensity of the communication. If it is
        below the FLOPs per second of a chip divided by the bytes per
        second of its links, sending takes longer than computing.
        """
        return self.total / self.sent if self.sent else None

    @cached_property
    def _table(self) -> Table:
        names = short({line for line, _ in self.lines if line})
        rows = []
        for (line, direction), flops in self.lines.items():
            words = (direction, names.get(line, "unknown line"))
            rows.append((", ".join(filter(None, words)), flops, 1))
        total = "total"
        if not self.bounded:
            total += ", with one turn of loops that depend on data"
        elif not self.counted:
            total += " at most, as a branch may not be taken"
        totals = [(total, f"{self.total:,}")]
        if self.per_byte_sent is not None:
            totals.append(("per byte sent", f"{self.per_byte_sent:,.1f}"))
        if self.kernels:
            totals.append(
                ("kernels, which are not counted", f"{self.kernels:,}")
            )
        title, unit = "matrix products", "FLOPs on one device"
        return numbers_table(
            title, unit, rows, _SHOWN, totals, joints=("(?<=, )",)
        )

    def __repr__(self) -> str:
        return text_of(self._table)

    def _repr_html_(self) -> str:
        return html_of(self._table, kind=" shardscope-program")


def flops_of(module: Module, sent: int) -> Flops:
    """Count the FLOPs of a program.

    Args:
        module: The program.
        sent: The bytes that a device sends.
    """
    sources = Sources(module.head)
    lines: defaultdict[tuple[str, str], int] = defaultdict(int)
    runs = runs_of(module, _computes)
    kernels = 0
    for run in runs:
        if _KERNEL.search(run.instruction.text):
            kernels += run.times
            continue
        line = sources.of(run.origin.text)
        direction = direction_of(run.origin.op_name)
        lines[line, direction] += run.times * _flops(run, module)
    return Flops(
        dict(sorted(lines.items(), key=lambda item: -item[1])),
        sent,
        kernels,
        all(run.counted for run in runs),
        all(run.bounded for run in runs),
    )


def _computes(each: Instruction) -> bool:
    """Tell whether an instruction is a product, or may have some inside."""
    if each.opcode == "custom-call":
        found = _TARGET.search(each.text) or _KERNEL.search(each.text)
        return found is not None
    return each.opcode in ("dot", "convolution")


def _flops(run: Run, module: Module) -> int:
    """Count the FLOPs of one product."""
    each = run.instruction
    within = module.computations[run.within]
    left, right = (
        sizes_in(within[name].type) for name in each.operands[:2]
    )
    if each.opcode == "dot":
        contracted = _CONTRACTED.search(each.text)
        axes = contracted[1].split(",") if contracted else []
        return _of_dot(left, sizes_in(each.type), axes)
    target = _TARGET.search(each.text)
    config = _CONFIG.search(each.text)
    if target and config and target[1] == "cublas":
        numbers = json.loads(config[1])["gemm_backend_config"]
        axes = numbers["dot_dimension_numbers"]
        return _of_dot(
            left,
            sizes_in(each.type),
            axes["lhs_contracting_dimensions"],
        )
    arrays = (left, right, sizes_in(each.type))
    order = _BACKWARD.get(target[2] if target else "", (0, 1, 2))
    return _of_convolution(each.text, *(arrays[at] for at in order))


def _of_dot(
    left: list[int], result: list[int], contracted: Iterable[int | str]
) -> int:
    """Count two FLOPs for each product that is added up."""
    length = math.prod(left[int(axis)] for axis in contracted)
    return 2 * length * math.prod(result)


def _of_convolution(
    text: str, given: list[int], kernel: list[int], result: list[int]
) -> int:
    """Count two FLOPs for each product that is not with padding."""
    labels = _LABELS.search(text)
    if labels is None:
        return 0
    of_given, of_kernel, of_result = labels.groups()
    groups = {kind: int(count) for kind, count in _GROUPS.findall(text)}
    products = (
        given[of_given.index("b")]
        // groups.get("batch", 1)
        # A filter has the inputs of a group alone.
        * kernel[of_kernel.index("i")]
        * result[of_result.index("f")]
    )
    found = _WINDOW.search(text)
    window = dict(
        part.split("=") for part in (found[1].split() if found else ())
    )
    for axis in filter(str.isdigit, of_kernel):
        options = {
            name: values.split("x")[int(axis)]
            for name, values in window.items()
        }
        products *= _overlaps(
            given[of_given.index(axis)],
            kernel[of_kernel.index(axis)],
            result[of_result.index(axis)],
            stride=int(options.get("stride", 1)),
            pad=int(options.get("pad", "0_0").partition("_")[0]),
            apart=int(options.get("lhs_dilate", 1)),
            dilation=int(options.get("rhs_dilate", 1)),
        )
    return 2 * products


@cache
def _overlaps(
    given: int,
    kernel: int,
    result: int,
    *,
    stride: int,
    pad: int,
    apart: int,
    dilation: int,
) -> int:
    """Count where a window meets an element, along one dimension.

    The TPU's compiler writes a batch of matrix products as a convolution
    whose elements are so far apart that each window meets one.
    """
    count = 0
    for at in range(kernel):
        places = np.arange(result) * stride - pad + at * dilation
        inside = (places >= 0) & (places < given * apart - apart + 1)
        count += int(np.count_nonzero(inside & (places % apart == 0)))
    return count
