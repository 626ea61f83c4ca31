"""The versions of what compiles a program."""

from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_PACKAGES = ("jax", "jaxlib", "flax")


def versions_of(device: Any) -> dict[str, str]:
    """Name the versions that a program for a device comes from.

    XLA doesn't have a separate version, because it is part of jaxlib. For
    a chip whose compiler is another, such as libtpu, jax says which.
    """
    found = dict(_installed())
    words = (
        " ".join(device.client.platform_version.split()) if device else ""
    )
    # For CPU, and for a GPU that is not there, the words are its name.
    if words and words not in (device.platform, device.device_kind):
        found["compiler"] = words
    return found


@cache
def _installed() -> dict[str, str]:
    """Name the versions of the packages; each is read from a file."""
    # Flax counts if it is installed: whether it is imported by now may be
    # up to the tests that ran before.
    found = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
