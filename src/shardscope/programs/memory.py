"""The memory that XLA assigns to a compiled program."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shardscope.peak.constants import Constant


@dataclass(frozen=True)
class Memory:
    """Bytes that XLA assigns to a compiled program on one device.

    Attributes:
        arguments: Bytes of the arguments in the device's memory.
        results: Bytes of the results in the device's memory.
        temporaries: Bytes of intermediates. XLA for CPU leaves out what a
            fusion uses inside: ``__ynn_fusion`` in the text, around
            matrix products.
        donated: Bytes of the results that reuse the memory of donated
            arguments, and so need no memory themselves.
        host: Bytes of host memory for this device: arguments, results and
            intermediates that are offloaded. No other figure includes
            them. On CPU there is only one memory, so offloaded arrays
            count like any others.
        constants: Bytes of the arrays that are part of the program: what
            the function reads from outside instead of taking it as an
            argument, whole on each device. They are listed in
            ``constants`` of :class:`Program`.
    """

    arguments: int
    results: int
    temporaries: int
    donated: int
    host: int = 0
    constants: int = 0

    @classmethod
    def of(cls, stats: Any, constants: Iterable[Constant] = ()) -> "Memory":
        """Read the result of a compiled program's ``memory_analysis()``.

        Constants are no figure of it. They count in the total that jax
        0.12 gives.

        Its peak is not used: on CPU it lacks the temporaries, and on TPU
        it includes what is on the host or in VMEM. XLA for TPU may also
        count results among the temporaries. There, the total that jax
        0.12 gives is less than the sum, and right, because libtpu compares
        this total with the memory of the chip. Older versions of jax don't
        give a total, so on TPU the temporaries may be too large.
        """
        arguments = stats.argument_size_in_bytes
        results = stats.output_size_in_bytes
        donated = stats.alias_size_in_bytes
        temporaries = stats.temp_size_in_bytes
        within = sum(each.bytes for each in constants)
        total = getattr(stats, "total_allocation_bytes", None)
        if total:
            # It is more than the sum where the host computes, too.
            rest = total - arguments - results + donated - within
            temporaries = min(temporaries, rest)
        host = (
            stats.host_argument_size_in_bytes
            + stats.host_output_size_in_bytes
            + stats.host_temp_size_in_bytes
            - stats.host_alias_size_in_bytes
        )
        return cls(arguments, results, temporaries, donated, host, within)

    @property
    def total(self) -> int:
        """Bytes of device memory; donated memory counts once."""
        needed = self.arguments + self.results + self.temporaries
        return needed + self.constants - self.donated


def lacks_fusions(text: str) -> bool:
    """Tell whether a program uses memory that XLA for CPU leaves out."""
    return "__ynn_fusion" in text
