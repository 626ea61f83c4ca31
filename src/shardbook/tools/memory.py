"""The memory that XLA assigns to a compiled program."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Memory:
    """Bytes that XLA assigns to a compiled program on one device.

    Attributes:
        arguments: Bytes of the arguments in the device's memory.
        results: Bytes of the results in the device's memory.
        temporaries: Bytes of intermediates. On CPU, what a fusion uses
            inside is not among them: ``__ynn_fusion`` in the text, around
            matrix products.
        donated: Bytes of the results that take the memory of donated
            arguments, and so need none of their own.
        host: Bytes of the host's memory for this device, for arguments,
            results and intermediates that are offloaded. They are in none
            of the other figures. On CPU there is only one memory, so
            offloaded arrays count as the others do.
    """

    arguments: int
    results: int
    temporaries: int
    donated: int
    host: int = 0

    @classmethod
    def of(cls, stats: Any) -> "Memory":
        """Read what ``memory_analysis()`` of a compiled program gives.

        The peak that it gives is not used: on CPU the temporaries are
        missing there, and on TPU what is on the host or in VMEM is added.
        XLA for TPU may count results among its temporaries too. There the
        total that jax 0.12 gives is less than the sum, and right: libtpu
        compares this total with the memory of the chip. Older versions of
        jax don't give it, so on TPU the temporaries may be too large.
        """
        arguments = stats.argument_size_in_bytes
        results = stats.output_size_in_bytes
        donated = stats.alias_size_in_bytes
        temporaries = stats.temp_size_in_bytes
        total = getattr(stats, "total_allocation_bytes", None)
        if total:
            # It is more than the sum where the host computes, too.
            rest = total - arguments - results + donated
            temporaries = min(temporaries, rest)
        host = (
            stats.host_argument_size_in_bytes
            + stats.host_output_size_in_bytes
            + stats.host_temp_size_in_bytes
            - stats.host_alias_size_in_bytes
        )
        return cls(arguments, results, temporaries, donated, host)

    @property
    def total(self) -> int:
        """Bytes of the device's memory, what is donated counted once."""
        return (
            self.arguments + self.results + self.temporaries - self.donated
        )
