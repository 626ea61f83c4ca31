"""Functions for several processes, in which something goes wrong."""

import atexit
import ctypes
import errno
import os
import signal
import subprocess
import sys
import threading
import time

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import shardbook
from shardscope import draw, layout, program


def rows(count=4, width=2):
    """Return an array to which each process adds rows of ones."""
    mesh = jax.make_mesh((jax.device_count(),), ("data",), (AxisType.Auto,))
    ours = np.ones((count, width), np.float32)
    sharding = NamedSharding(mesh, P("data"))
    return jax.make_array_from_process_local_data(sharding, ours)


def total(x):
    """Return the sum over all processes, which is a collective."""
    return float(jax.jit(lambda x: x.sum())(x))


def raises():
    total(rows())
    if jax.process_index() == 1:
        raise ValueError("no such file")  # here
    total(rows())


def first_raises():
    if jax.process_index() == 0:
        print(np.asarray(rows()))  # here
    total(rows())


def all_raise():
    total(rows())
    raise ValueError("too few rows")  # here


def killed():
    x = rows()
    total(x)
    if jax.process_index() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    total(x)


def exits_at_once():
    x = rows()
    if jax.process_index() == 1:
        os._exit(9)
    total(x)


def crashes():
    x = rows()
    total(x)
    if jax.process_index() == 0:
        ctypes.string_at(0)
    total(x)


def sys_exits():
    total(rows())
    if jax.process_index() == 0:
        sys.exit("no data")  # here
    total(rows())


def leaves_early():
    total(rows())
    if jax.process_index() == 1:
        sys.exit()
    total(rows())  # here


def one_step_more():
    x = rows()
    for _ in range(3 + jax.process_index()):
        total(x)  # here


def one_alone():
    x = rows()
    if jax.process_index() == 0:
        total(x)  # here


def nobody_reads():
    x = rows()
    add = jax.jit(lambda x: x.sum())
    add(x).block_until_ready()
    if jax.process_index() == 0:
        add(x)


def aborts_at_exit():
    total(rows())
    if jax.process_index() == 0:
        atexit.register(os.abort)


def address_in_use(path):
    if jax.process_index() == 1:
        with path.open("a") as file:
            file.write("once\n")
        raise OSError(errno.EADDRINUSE, "Address already in use")
    total(rows())


def polls():
    def poll():
        while True:
            sum(range(100_000))
            time.sleep(0.01)

    threading.Thread(target=poll, daemon=True).start()
    time.sleep(1000)  # here


def two_orders():
    x, y = rows(), rows(4, 1000)
    if jax.process_index() == 0:
        x, y = y, x
    total(x)
    total(y)


def locked():
    total(rows())
    lock = threading.Lock()
    lock.acquire()
    if jax.process_index() == 1:
        lock.acquire()  # here
    total(rows())


def two_shapes():
    count = 64 if jax.process_index() == 0 else 32
    total(rows(count))


def sleeps():
    x = rows()
    if jax.process_index() == 1:
        time.sleep(1000)  # here
    total(x)


def stopped():
    x = rows()
    total(x)
    if jax.process_index() == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    total(x)  # here


def leaves_a_child():
    subprocess.Popen(["sleep", "1000"])
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    total(rows())


def interrupted():
    total(rows())
    if jax.process_index() == 1:
        raise KeyboardInterrupt  # here
    total(rows())


class Unprintable(Exception):  # noqa: N818
    def __str__(self):
        raise RuntimeError("no words")


def unprintable():
    total(rows())
    if jax.process_index() == 1:
        raise Unprintable  # here
    total(rows())


def recurses():
    if jax.process_index() == 1:
        recurses()  # here
    total(rows())


def returns_a_part():
    return rows()


def returns_a_lock():
    return threading.Lock()


def prints():
    if jax.process_index() == 0:
        os.write(1, b"no end, \xff and no newline")
        os.write(2, b"x" * 2**20 + b"\n")
    return total(rows())


def closes_its_files():
    if jax.process_index() == 1:
        os.closerange(3, 100)
    total(rows())


def waits_for_ever():
    subprocess.Popen(["sleep", "1000"])
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print("waits", flush=True)
    time.sleep(1000)


def has_joined(path, count):
    """Return whether jax.distributed works as on a cluster."""
    jax.distributed.initialize()
    with shardbook.raises(RuntimeError, "should only be called once"):
        jax.distributed.initialize()
    joined = jax.process_count() == count
    with shardbook.raises(
        RuntimeError, "must be called before any JAX calls"
    ):
        jax.distributed.initialize()
    return path.read_text(), joined


def pictures():
    """Return what the tools show of an array of several processes."""
    x = rows()
    text = str(draw(x))
    svg = draw(x)._repr_html_()
    seen = program(lambda x: x.sum(), x)
    return text, svg, str(layout({"x": x})), seen.sent("data")
