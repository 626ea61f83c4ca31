"""Run a function or a script in several processes on one machine."""

import contextlib
import errno
import importlib.util
import io
import marshal
import os
import pickle
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import CodeType
from typing import Any

import cloudpickle  # type: ignore[import-untyped]  # It has no types.
import numpy as np
import psutil

from shardscope.cluster.fates import (
    Raised,
    Returned,
    causes,
    message,
    whereabouts,
)
from shardscope.cluster.group import Member, fates_of, group, watch
from shardscope.cluster.member import CALLS, Seat, serve
from shardscope.cluster.output import Lines
from shardscope.tables import terminal_width

# How many ports are tried, and what is said of one that is taken.
PORTS = 3
TAKEN = f"[Errno {errno.EADDRINUSE}]"
# What a member begins with.
START = """\
import sys
sys.path[:] = {path!r}
from shardscope.cluster.processes import begin
begin({link})
"""


def processes(
    target: str | Path | Callable[..., Any],
    *arguments: Any,
    processes: int = 2,
    devices: int = 4,
    seconds: float = 30,
    timeout: float | None = None,
) -> list[Any]:
    """Run a function or a script in several processes of this machine.

    Each process is a new Python with its own CPU devices, and all have
    joined by ``jax.distributed.initialize`` before your code begins, so
    ``jax.devices()`` lists the devices of all, and
    ``jax.local_devices()`` those of the process. No device of the process
    that calls this is used.

    So your own call of ``jax.distributed.initialize`` does nothing, and
    its arguments go untested. But a second call, or one that comes after
    JAX has started its devices, raises JAX's error, and a script that
    never makes the call is reported on standard error.

    What the processes print appears here, each line with its process, as
    in ``[1] loss 2.31``. They have no standard input.

    When one process raises an error, dies, or exits with a status other
    than 0, or when no process uses the CPU any more, the others are ended,
    with all processes that they have started. So are they when you press
    Ctrl-C, or when the process that called this dies. A process that dies
    or hangs after your code, for example in a computation whose result
    nobody read, has failed as well. But if that computation is the first
    collective of the job, JAX ends without waiting for it or an error.

    Args:
        target: A function, which may be defined in a notebook, or the path
            of a script.
        *arguments: What the function is called with, in each process. It
            is pickled, so each process has its own copy, and a
            ``jax.Array`` arrives as a NumPy array. A random key can't be
            pickled: pass ``jax.random.key_data(key)``, and call
            ``jax.random.wrap_key_data`` in the function. For a script, the
            strings that follow its path in ``sys.argv``.
        processes: How many processes, 1 or more.
        devices: How many CPU devices each process has, 1 or more. If your
            code sets ``jax_num_cpu_devices``, that counts instead.
        seconds: How many seconds of wall-clock time may pass in which the
            processes hardly use the CPU. After that, they are taken to
            wait for one another. A thread that polls uses the CPU, so set
            ``timeout`` for such programs.
        timeout: How many seconds of wall-clock time the processes may take
            in all, even if they compute. ``None`` sets no limit.

    Returns:
        What the function returned in each process, in order; ``None`` for
        scripts, and where a process called ``sys.exit()``, which ends its
        code. A ``jax.Array`` comes back as a NumPy array, if the process
        holds all of it.

    Raises:
        RuntimeError: If a process didn't come to the end of your code, or
            didn't end with status 0 after it. It names the process and its
            line, and says where the others were.
        TypeError: If the function or an argument can't be pickled.
        FileNotFoundError: If there is no such script.
        ValueError: If ``processes`` or ``devices`` is less than 1, or
            ``seconds`` or ``timeout`` not more than 0.
        OSError: If this system has no POSIX signals, as Windows.

    Example:
        >>> import shardscope
        >>> def count():
        ...     import jax
        ...     return jax.local_device_count(), jax.device_count()
        >>> shardscope.processes(count, processes=2, devices=4)
        [(4, 8), (4, 8)]
    """
    limits = [seconds] if timeout is None else [seconds, timeout]
    if processes < 1 or devices < 1 or not all(x > 0 for x in limits):
        raise ValueError(
            "processes() needs processes >= 1, devices >= 1, seconds > 0 "
            f"and timeout > 0 or None, but got processes={processes}, "
            f"devices={devices}, seconds={seconds}, timeout={timeout}"
        )
    if not hasattr(os, "killpg"):
        raise OSError(
            "processes() needs POSIX signals; on Windows, use the Windows "
            "Subsystem for Linux"
        )
    work = _work(target, arguments)
    for _ in range(PORTS):
        with group(partial(_start, work), processes, devices) as members:
            try:
                why = watch(members, seconds, timeout)
            except KeyboardInterrupt as interrupt:
                interrupt.add_note(whereabouts(fates_of(members)))
                raise
            fates = fates_of(members)
        if not any(
            isinstance(each, Raised)
            and TAKEN in each.words
            and not each.lines
            for each in fates.values()
        ):
            break
    values = [
        each.value for each in fates.values() if isinstance(each, Returned)
    ]
    if len(values) == processes:
        return [pickle.loads(each) for each in values]
    first = next((fates[index] for index in causes(fates)), None)
    trace = first.trace if isinstance(first, Raised) else ""
    raise RuntimeError(message(fates, why)) from (
        _Traceback(trace) if trace else None
    )


class _Traceback(Exception):  # noqa: N818
    """The traceback of an error in another process."""


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles the arrays of jax as those of NumPy, and code with its file.

    cloudpickle 3.1.3 leaves out which file code comes from.
    """

    def reducer_override(self, value: Any) -> Any:
        """Give how a value is made again in the other process."""
        jax = sys.modules.get("jax")
        if jax and isinstance(value, jax.Array):
            return np.asarray, (_in_numpy(value),)
        if isinstance(value, CodeType):
            return marshal.loads, (marshal.dumps(value),)
        return super().reducer_override(value)


def _in_numpy(array: Any) -> Any:
    """Give an array of jax as one of NumPy.

    Raises:
        TypeError: If this process doesn't hold all of it.
    """
    if array.is_fully_replicated:
        array = array.addressable_data(0)
    if not array.is_fully_addressable:
        indices = array.sharding.devices_indices_map(array.shape)
        slices = len({*map(str, indices.values())})
        here = len({str(each.index) for each in array.addressable_shards})
        raise TypeError(
            f"it has an array {array.dtype}{[*array.shape]}, and this "
            f"process holds {here} of its {slices} slices. Return a value "
            "that is replicated, or what each process holds: "
            "[shard.data for shard in array.addressable_shards]"
        )
    return np.asarray(array)


def _pickled(value: Any) -> bytes:
    data = io.BytesIO()
    _Pickler(data).dump(value)
    return data.getvalue()


def _work(target: Any, arguments: tuple[Any, ...]) -> bytes:
    """Pickle what the members are to do.

    Raises:
        FileNotFoundError: If it is a script that isn't there.
        TypeError: If it can't be pickled, or is neither.
    """
    if isinstance(target, str | Path):
        path = Path(target).absolute()
        if not path.is_file():
            raise FileNotFoundError(f"there is no script {path}")
        return _pickled((_run_script, (str(path), *map(str, arguments))))
    if not callable(target):
        raise TypeError(
            "processes() takes a function or the path of a script, but got "
            f"an object of type {type(target).__name__}"
        )
    try:
        with _by_value(getattr(target, "__module__", "")):
            return _pickled((target, arguments))
    # What can go wrong depends on what the function uses.
    except Exception as error:
        raise TypeError(
            f"the function can't be sent to other processes: {error}. "
            "Import or make what it needs inside of the function"
        ) from error


@contextlib.contextmanager
def _by_value(name: str) -> Iterator[None]:
    """Pickle a module's functions as code, if others can't import it."""
    module = sys.modules.get(name)
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if module is None or found or name == "__main__":
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _run_script(path: str, *arguments: str) -> None:
    """Run a script as Python would."""
    sys.argv = [path, *arguments]
    sys.path[0] = os.path.dirname(path)
    try:
        runpy.run_path(path, run_name="__main__")
    finally:
        # An error may have come before the call.
        if not CALLS and not isinstance(sys.exception(), Exception):
            print(
                f"{os.path.basename(path)} did not call "
                "jax.distributed.initialize(), so on a cluster each "
                "process would run alone",
                file=sys.stderr,
            )


def _environment(devices: int) -> dict[str, str]:
    """Give our environment variables, with CPU devices as asked for."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    count = "--xla_force_host_platform_device_count"
    kept = " ".join(flag for flag in flags if not flag.startswith(count))
    return {
        **os.environ,
        "XLA_FLAGS": kept,
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(devices),
    }


def _start(work: bytes, seat: Seat) -> Member:
    """Start a member, and send it what it is to do."""
    link, theirs = Pipe()
    label = f"[{seat.process}] "
    columns = {"COLUMNS": str(terminal_width() - len(label))}
    with theirs:
        code = START.format(path=sys.path, link=theirs.fileno())
        process = psutil.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            env=_environment(seat.devices) | columns,
        )
    outputs = [
        Lines(os.dup(file.fileno()), label, out)
        for file, out in (
            (process.stdout, sys.stdout),
            (process.stderr, sys.stderr),
        )
    ]
    process.stdout.close()
    process.stderr.close()
    member = Member(process, link, outputs, seat.trace)
    with contextlib.suppress(BrokenPipeError):
        link.send((seat, work))
    return member


def begin(descriptor: int) -> None:
    """Be a member that was started as a new Python.

    Args:
        descriptor: The file descriptor of its link.
    """
    os.set_inheritable(descriptor, False)
    link = Connection(descriptor)
    seat, work = link.recv()
    serve(link, seat, lambda _: Returned(_do(work)))


def _do(work: bytes) -> bytes:
    function, arguments = pickle.loads(work)
    result = function(*arguments)
    try:
        return _pickled(result)
    # What can go wrong depends on what it returned.
    except Exception as error:
        raise TypeError(
            f"what the function returned can't be sent back: {error}"
        ) from error
