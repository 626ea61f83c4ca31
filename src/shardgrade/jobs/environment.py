"""The environment variables that attempts are graded with."""

import contextlib
import os
from pathlib import Path

# Settings of the reader's that would change what jax and flax do.
FOREIGN = ("JAX_", "XLA_", "FLAX_", "NNX_", "TF_", "PYTHON", "LIBTPU_")
# How many bytes of compiled programs may be in the cache as we start.
LARGEST_CACHE = 2**28


def grading_environment() -> dict[str, str]:
    """Return our environment, with the settings of jax that we grade with.

    Attempts at one problem compile much the same programs, today and
    tomorrow, so jax keeps all of them.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(FOREIGN)
    }
    environment["JAX_PLATFORMS"] = "cpu"
    # The same programs, without LLVM's passes: compiling is most of the
    # time that a verdict takes.
    environment["XLA_FLAGS"] = "--xla_backend_optimization_level=0"
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    cache = Path(os.path.expanduser(home)).absolute() / "shardbook" / "jax"
    # Where nothing can be written, each program is compiled again; and
    # another check may remove the same programs at this moment.
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        environment["JAX_COMPILATION_CACHE_DIR"] = str(cache)
        environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        environment["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
        programs = cache.glob("*-cache")
        if sum(each.stat().st_size for each in programs) > LARGEST_CACHE:
            forget_programs(str(cache))
    return environment


def forget_programs(cache: str) -> None:
    """Remove the compiled programs in a folder, and nothing else."""
    for program in Path(cache).glob("*-cache"):
        program.unlink(missing_ok=True)
