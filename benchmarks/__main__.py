"""Run the benchmarks, and note in last_run.txt what they showed.

Run it with "nox -s bench", on a machine that does nothing else.
"""

import io
import os
import platform
import sys
from contextlib import redirect_stdout
from datetime import date
from importlib.metadata import version
from pathlib import Path

import build_times
import check_times
import layout_times

NOTE = Path(__file__).with_name("last_run.txt")


class Both(io.StringIO):
    """What is printed, kept and shown."""

    def write(self, text: str) -> int:
        """Show it at once: a run takes its time."""
        sys.__stdout__.write(text)
        sys.__stdout__.flush()
        return super().write(text)


with redirect_stdout(Both()) as printed:
    versions = (f"{name} {version(name)}" for name in ("jax", "flax"))
    python = f"Python {platform.python_version()}"
    print(date.today(), python, *versions, sep=", ", end=", ")
    print(f"{os.cpu_count()} cores\n")
    check_times.main()
    print()
    layout_times.main()
    print()
    build_times.main()
NOTE.write_text(printed.getvalue(), "utf-8")
