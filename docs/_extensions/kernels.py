"""Start the kernel of each page as a fork of one warm process.

Most of the time that a page takes would go to start Python and to import
jax and flax, again for each page. Where a process can't be forked, kernels
start as they always do, and give the same pages.

Run as a program, this runs a command that builds again and again, with one
warm process for all of its builds.
"""

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import EntryPoint
from multiprocessing.connection import Client, Listener
from threading import Thread
from typing import Any

from jupyter_client.provisioning import (
    KernelProvisionerFactory,
    LocalProvisioner,
)
from sphinx.application import Sphinx

from shardbook.warm import Running, Warm

NAME = "warm"
# What every kernel would have to import.
IMPORTED = ("ipykernel.kernelapp", "kernels")
# Names the warm process of a command that builds again and again.
ADDRESS = "SHARDBOOK_KERNELS"


class Guest:
    """The warm process of someone else, who also ends it."""

    def start(self, target: str, *arguments: Any) -> Running:
        """Run a function there, and go on."""
        link = Client(os.environ[ADDRESS], "AF_UNIX")
        return Running(link, target, arguments)

    def close(self) -> None:
        """Leave it to the others."""


warm: Warm | Guest | None = None


class Process:
    """A kernel, as jupyter_client wants to see a process."""

    stdin = stdout = stderr = None

    def __init__(self, running: Running) -> None:
        self._running = running

    def poll(self) -> int | None:
        """Give an exit status, if there is one yet."""
        outcome = self._running.poll()
        return outcome and int(outcome.ending != "returned")

    def wait(self) -> int:
        """Wait for the exit status."""
        while (status := self.poll()) is None:
            time.sleep(0.01)
        return status

    def send_signal(self, number: int) -> None:
        """End it: whatever the signal, no one has another use for it."""
        self._running.end()

    terminate = kill = lambda self: self._running.end()


class Provisioner(LocalProvisioner):
    """Where kernels come from: the warm process."""

    async def launch_kernel(
        self, cmd: list[str], **options: Any
    ) -> dict[str, Any]:
        """Fork a kernel; cmd is what would start it otherwise."""
        launcher = cmd.index("ipykernel_launcher")
        running = warm.start(
            "kernels:run",
            cmd[launcher + 1 :],
            options.get("cwd") or os.getcwd(),
            self.kernel_spec.env,
        )
        self.process = Process(running)
        return self.connection_info


def run(
    arguments: list[str], folder: str, settings: dict[str, str]
) -> None:
    """Be a kernel, in the fork, until told to end."""
    import jax
    from ipykernel.kernelapp import IPKernelApp

    os.chdir(folder)
    os.environ.update(settings)
    # As in a process that is told nothing; so is that of a reader.
    for name in [name for name in os.environ if name.startswith("JAX_")]:
        del os.environ[name]
    jax.config.update("jax_platforms", None)
    jax.config.update("jax_compilation_cache_dir", None)
    warnings.resetwarnings()
    warnings.simplefilter(settings["PYTHONWARNINGS"])
    # What was imported is older than what a writer has saved since.
    for name in [n for n in sys.modules if n.split(".")[0] == "shardbook"]:
        del sys.modules[name]
    # The warm process looks in no folder that it happens to be in.
    sys.path.insert(0, "")
    sys.argv = ["ipykernel_launcher", *arguments]
    IPKernelApp.launch_instance(arguments)


def start(app: Sphinx) -> None:
    """Start the warm process, while the pages are still looked for."""
    global warm
    if app.config.nb_execution_mode == "off" or not app.config.kernels_warm:
        return
    warm = Guest() if ADDRESS in os.environ else Warm(*IMPORTED)
    factory = KernelProvisionerFactory.instance()
    factory.default_provisioner_name = NAME
    factory.provisioners[NAME] = EntryPoint(
        NAME, f"{__name__}:{Provisioner.__name__}", factory.GROUP_NAME
    )


def end(app: Sphinx, exception: Exception | None) -> None:
    if warm:
        warm.close()


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("kernels_warm", hasattr(os, "fork"), "", bool)
    app.connect("builder-inited", start)
    app.connect("build-finished", end)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


@contextmanager
def kept() -> Iterator[dict[str, str]]:
    """Keep a warm process; give the environment in which builds use it."""
    if not hasattr(os, "fork"):
        yield {**os.environ}
        return
    with Warm(*IMPORTED) as warm, Listener(family="AF_UNIX") as listener:
        Thread(target=warm.welcome, args=[listener], daemon=True).start()
        yield {**os.environ, ADDRESS: listener.address}


def main() -> int:
    """Run a command to its end, and give its exit status."""
    with kept() as environment:
        process = subprocess.Popen(sys.argv[1:], env=environment)
        while True:
            # Ctrl-C is for the command too, which then ends.
            with suppress(KeyboardInterrupt):
                return process.wait()


if __name__ == "__main__":
    sys.exit(main())
