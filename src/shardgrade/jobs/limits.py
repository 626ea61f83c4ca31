"""What a call may use."""

from dataclasses import dataclass

# How many seconds of CPU time and how many MiB of memory a call may use,
# unless the caller says otherwise.
SECONDS = 60.0
MEGABYTES = 8192
# The most seconds that a caller can allow.
DAY = 86_400


@dataclass(frozen=True)
class Limits:
    """What a call may use.

    Attributes:
        seconds: How many seconds of CPU time it may use, in all of its
            threads and child processes, and for how many seconds of
            wall-clock time it may hardly use the CPU.
        megabytes: How much memory it may ask for, in MiB, beyond what its
            process has as it begins; 0 for any amount.

    Raises:
        ValueError: If ``seconds`` is not more than 0 and at most a day.
    """

    seconds: float = SECONDS
    megabytes: int = MEGABYTES

    def __post_init__(self) -> None:
        # Written so that it refuses NaN, which no comparison is true of.
        if not 0 < self.seconds <= DAY:
            raise ValueError(
                f"seconds must be more than 0 and at most {DAY}, but got "
                f"{self.seconds}"
            )


USUAL = Limits()
# A limit of memory can't be raised again, and is set by the call itself.
REHEARSAL = Limits(megabytes=0)
