"""Give pages kernels that are forked from one process.

It has imported jax and flax, which is most of the time that a kernel
takes to start. kernel_server.py is that process.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.kernelspec import get_kernel_spec
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

PROGRAM = Path(__file__).with_name("kernel_server.py")


class Server:
    """The process that kernels are forked from.

    The processes that are forked from this one can use it too.

    Args:
        flags: What is added to ``XLA_FLAGS`` for kernels, unless a page
            has other flags.
    """

    def __init__(self, flags: str) -> None:
        self.flags = flags
        # In one message there is one request.
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._requests, theirs = pair
        with theirs:
            self._process = subprocess.Popen(
                (
                    *(sys.executable, str(PROGRAM)),
                    *(str(theirs.fileno()), str(os.getpid())),
                ),
                env={**os.environ, **get_kernel_spec("python3").env},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def fork(self, **order: Any) -> int:
        """Have a process be a kernel; return its id.

        Args:
            order: What the kernel is given, as kernel_server.be_kernel
                describes.

        Raises:
            OSError: If the server has ended.
        """
        reading, writing = os.pipe()
        with open(reading) as answer:
            with open(writing):
                message = json.dumps(order).encode()
                socket.send_fds(self._requests, [message], [writing])
            if pid := answer.read():
                return int(pid)
        raise OSError("the process that kernels are forked from has ended")

    def close(self) -> None:
        """End it, and its kernels."""
        self._process.terminate()
        self._process.wait()
        self._requests.close()


class _Kernel:
    """A process that is not our child, used like a Popen."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)

    def poll(self) -> int | None:
        """Return None as long as it runs."""
        return None if self._process.is_running() else 0

    wait = poll


class _Provisioner(LocalProvisioner):
    """Gets the process of a kernel from a server."""

    server: Server
    environment: dict[str, str]
    trace: Path

    async def launch_kernel(
        self, cmd: list[str], **kwargs: Any
    ) -> KernelConnectionInfo:
        """Have a kernel forked, instead of running a command."""
        assert cmd[1:3] == ["-m", "ipykernel_launcher"], cmd
        self.pid = self.server.fork(
            arguments=cmd[3:],
            folder=kwargs["cwd"],
            environment=self.environment,
            trace=str(self.trace),
        )
        kernel: Any = _Kernel(self.pid)
        self.process = kernel
        return self.connection_info

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel and what it started, if they live."""
        assert self.pid, "it was launched"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signum)


def manager_of(
    server: Server, flags: str, trace: Path
) -> type[AsyncKernelManager]:
    """Return a class of managers of kernels.

    Args:
        server: What forks the kernels.
        flags: What is added to ``XLA_FLAGS`` for them.
        trace: Where a kernel writes which files it opens.
    """
    given = os.environ.get("XLA_FLAGS", "")

    class Manager(AsyncKernelManager):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.provisioner = _Provisioner(
                kernel_spec=self.kernel_spec, parent=self
            )
            self.provisioner.server = server
            self.provisioner.trace = trace
            self.provisioner.environment = {
                "XLA_FLAGS": f"{given} {flags}".strip()
            }

    return Manager
