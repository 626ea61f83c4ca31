"""Layouts of arrays in the memory of hosts, and in other processes."""

import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P
from strategies import MESHES

from shardscope import layout

# A process that has four of eight devices, and half of an array.
PROCESS = """
import sys
import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
from shardbook import inputs
from shardscope import draw, layout, program

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)
number, address = sys.argv[1:]
jax.distributed.initialize(address, 2, int(number))
sharding = NamedSharding(inputs.mesh_of(2, 4), P("data", "model"))
whole = np.arange(64, dtype="float32").reshape(8, 8)
array = jax.make_array_from_callback((8, 8), sharding, whole.__getitem__)
table = layout({"array": array})

assert len(array.addressable_shards) == 4
assert not array.is_fully_addressable
assert table.bytes == 4 * 64 and table.bytes_per_device == 4 * 8
assert table.bytes_on == dict.fromkeys(jax.devices(), 32)
assert table.match(table) is table and table.findings() == ()
assert len(repr(draw(array)).splitlines()) == 1 + 8
report = program(lambda x: x.sum(), array)
assert set(report.collectives) == {"all-reduce"}
assert report.transfers == {}
print(table)
"""


@pytest.mark.parametrize("kind", ["pinned_host", "unpinned_host"])
def test_memory_of_a_host(kind: str) -> None:
    """What is in the memory of hosts is apart from what devices hold."""
    sharding = NamedSharding(MESHES[0], P(MESHES[0].axis_names[0]))
    arrays = {
        "moments": jax.device_put(
            jnp.ones((8, 4)), sharding.with_memory_kind(kind)
        ),
        "params": jax.device_put(jnp.ones((8, 2)), sharding),
    }

    table = layout(arrays)
    moments, params = table

    assert moments.sharding.memory_kind == moments.host_memory == kind
    assert params.host_memory == ""
    assert table.host_bytes == moments.bytes
    assert table.bytes == params.bytes
    assert table.bytes_per_device == params.bytes_per_device
    assert f", {kind}" in str(table)
    assert f"host memory {moments.bytes}" in " ".join(str(table).split())


def test_arrays_of_which_a_process_holds_a_part() -> None:
    """Each of two processes is told where the whole array is."""
    with socket.create_server(("localhost", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"
    processes = [
        subprocess.Popen(
            (sys.executable, "-c", PROCESS, str(number), address),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(2)
    ]
    first, second = (each.communicate(timeout=120)[0] for each in processes)

    assert [each.returncode for each in processes] == [0, 0], first + second
    assert "float32[8,8]  P('data', 'model')  " in first
    assert first.splitlines()[-2:] == second.splitlines()[-2:]
