"""Fork Jupyter kernels from one process, which has imported jax and flax.

kernels.py starts this file as a program: as a module it would import its
package, which no kernel has. It never asks jax for a device, so it can be
forked. It ends when the process that started it has, and its kernels end
when it has.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import warnings
from typing import NoReturn

# How often we look whether the build goes on, in seconds.
PAUSE = 1
# By these a process starts another.
STARTS = {
    *("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"),
    *("os.exec", "os.spawn", "os.system"),
}


def serve(requests: socket.socket, parent: int) -> None:
    """Fork a kernel for each request, as long as the parent lives.

    Args:
        requests: Where the requests come from, each with a pipe for the
            answer, the id of the kernel's process.
        parent: The process that the requests come from.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Kernels need not be waited for as they end.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while os.getppid() == parent:
        if not select.select([requests], [], [], PAUSE)[0]:
            continue
        request, (answer, *_), _, _ = socket.recv_fds(requests, 2**16, 1)
        # Not before the first request: a build may have nothing to run.
        preload()
        if os.fork() == 0:
            requests.close()
            be_kernel(answer, **json.loads(request))
        os.close(answer)


def preload() -> None:
    """Import what a page would, unless that is done."""
    # What is imported stays: to look for garbage in it would only take
    # time, and later copy the memory that forks share.
    gc.disable()
    importlib.import_module("ipykernel.kernelapp")
    # A kernel imports it as it starts.
    importlib.import_module("ipykernel.debugger")
    # A page would show the warning, and fail.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        importlib.import_module("jax")
        importlib.import_module("flax.nnx")
    gc.freeze()
    gc.enable()


def be_kernel(
    answer: int,
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    trace: str,
) -> NoReturn:
    """Be a kernel, as ipykernel_launcher is in a process of its own."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    server = os.getppid()
    os.setsid()
    os.chdir(folder)
    os.environ.update(environment)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.write(answer, str(os.getpid()).encode())
    os.close(answer)
    record_opened(trace)
    sys.argv[1:] = arguments
    kernelapp = importlib.import_module("ipykernel.kernelapp")
    kernelapp.launch_new_instance(
        [*arguments, f"--IPKernelApp.parent_handle={server}"]
    )
    sys.exit()


def record_opened(trace: str) -> None:
    """Write the paths of files that are opened to a file, as JSON.

    From now on, a line each. A line is null if a process is started.
    """
    # Without a buffer: nobody knows how a kernel ends.
    file = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    seen = set()

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes):
            path = os.path.abspath(os.fsdecode(arguments[0]))
        elif event in STARTS:
            path = None
        else:
            return
        if path not in seen:
            seen.add(path)
            os.write(file, f"{json.dumps(path)}\n".encode())

    sys.addaudithook(note)


if __name__ == "__main__":
    # Kernels would find modules in the folder of this file.
    del sys.path[0]
    descriptor, parent = map(int, sys.argv[1:])
    serve(socket.socket(fileno=descriptor), parent)
