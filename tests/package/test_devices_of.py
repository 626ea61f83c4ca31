"""Devices of machines that are not here, and what is compiled for them."""

import math
import os
import re
from importlib.util import find_spec
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from shardbook import devices_of, program
from shardbook._devices_of import GPUS, TPUS

# "nox -s elsewhere" installs what compiles for them.
HAS_TPUS = find_spec("libtpu") is not None
HAS_GPUS = find_spec("jax_plugins") is not None
needs_tpus = pytest.mark.skipif(not HAS_TPUS, reason="libtpu is not there")
needs_gpus = pytest.mark.skipif(not HAS_GPUS, reason="no plugin for GPUs")


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (
            "v9:2x2",
            "Unknown chip 'v9'. Known TPUs: v4, v5e, v5p, v6e; GPUs",
        ),
        ("", "Unknown chip ''"),
        ("v5e", "Unknown slice '' of v5e. Known: 1x1, 2x2, 2x4"),
        ("v5e:3x4", "Unknown slice '3x4' of v5e"),
        ("v6e:16x32", "Unknown slice '16x32' of v6e"),
        ("v5p:4x4", "Unknown slice '4x4' of v5p. Known: 2x2x1"),
        ("v5p:4x8x4", "multiples of 4 in rising order, of at most 6,144"),
        ("v5p:16x16x28", "of at most 6,144 chips, such as 4x4x8"),
        ("v4:0x4x4", "Unknown slice '0x4x4' of v4"),
        ("h100", "Unknown size '' of a cluster of h100"),
        ("h100:3x9", "number of hosts, and of GPUs in each, up to 8"),
        ("h100:0x8", "as in 'h100:16x8'"),
    ],
)
def test_a_machine_that_does_not_exist(machine: str, message: str) -> None:
    """The error says which there are."""
    with pytest.raises(ValueError, match=message.replace("'", ".")):
        devices_of(machine)


@pytest.mark.parametrize(
    ("machine", "module", "command"),
    [
        ("v5e:2x4", "libtpu", 'pip install "jax[tpu]==VERSION"'),
        (
            "h100:1x8",
            "jax_plugins.xla_cuda12",
            'install "jax[cuda12-local]==VERSION" nvidia-cuda-nvcc-cu12 '
            "nvidia-cuda-runtime-cu12",
        ),
    ],
)
def test_a_compiler_that_is_missing(
    machine: str, module: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the command that installs it."""
    monkeypatch.setattr(
        "shardbook._devices_of.find_spec",
        lambda name: None if name == module else object(),
    )
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    with pytest.raises(ImportError) as raised:
        devices_of(machine)

    expected = command.replace("VERSION", jax.__version__)
    assert str(raised.value).endswith(expected)


def test_a_platform_without_compilers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error names no command that would fail."""
    monkeypatch.setattr("shardbook._devices_of.find_spec", lambda _: None)
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    with pytest.raises(ImportError, match=r"this is Darwin on arm64$"):
        devices_of("v5e:2x4")


@needs_tpus
@pytest.mark.parametrize(
    "machine",
    [
        *(f"{chip}:{each}" for chip in TPUS for each in TPUS[chip].slices),
        "v4:16x16x16",
        "v5p:8x8x16",
        "v5p:16x16x24",
    ],
)
def test_slices_of_tpus(machine: str) -> None:
    """Each chip is one device, and nothing of ours stays set."""
    before = dict(os.environ)
    devices = devices_of(machine)
    chip, sizes = machine.split(":")

    assert len(devices) == math.prod(map(int, sizes.split("x")))
    assert {device.device_kind for device in devices} == {TPUS[chip].kind}
    assert dict(os.environ) == before


@needs_gpus
@pytest.mark.parametrize("chip", GPUS)
def test_clusters_of_gpus(chip: str) -> None:
    """There are as many devices as hosts have GPUs."""
    devices = devices_of(f"{chip}:4x8")

    assert len(devices) == 32
    assert len({device.process_index for device in devices}) == 4
    assert {device.device_kind for device in devices} == {GPUS[chip].kind}


MACHINES = [
    *(
        pytest.param(f"{chip}:2x2", marks=needs_tpus)
        for chip in ("v5e", "v6e")
    ),
    *(
        pytest.param(f"{chip}:2x2x1", marks=needs_tpus)
        for chip in ("v4", "v5p")
    ),
    *(pytest.param(f"{chip}:1x4", marks=needs_gpus) for chip in GPUS),
]


@pytest.mark.parametrize("machine", MACHINES)
def test_a_loop_of_known_volume(machine: str) -> None:
    """What each chip's compiler makes of a scan is counted to the byte."""
    mesh = jax.make_mesh(
        (2, 2),
        ("data", "model"),
        (AxisType.Auto,) * 2,
        devices=devices_of(machine),
    )

    @jax.shard_map(mesh=mesh, in_specs=P("data"), out_specs=P("data"))
    def local(x: jax.Array) -> jax.Array:
        def body(x: jax.Array, _: None) -> tuple[jax.Array, None]:
            total = jnp.sin(jax.lax.psum(x, "data"))
            return jax.lax.pcast(total, "data", to="varying"), None

        return jax.lax.scan(body, x, length=7)[0]

    x = jax.ShapeDtypeStruct(
        (512, 256), jnp.float32, sharding=NamedSharding(mesh, P("data"))
    )
    report = program(jax.jit(local), x)

    assert report.collectives == {"all-reduce": 7}
    assert report.sent("data") == 7 * 256 * 256 * 4
    (seen,) = report.communication
    assert Path(seen.source.rpartition(":")[0]).name == Path(__file__).name
    assert report.available
    assert report.memory.total < report.available


@needs_tpus
@pytest.mark.parametrize(
    "machine", ["v4:2x2x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2"]
)
def test_the_memory_is_what_libtpu_says(machine: str) -> None:
    """Its error names the memory that a program can have."""
    devices = devices_of(machine)
    mesh = jax.make_mesh((4,), ("data",), (AxisType.Auto,), devices=devices)
    x = jax.ShapeDtypeStruct(
        (2**20, 2**16), jnp.float32, sharding=NamedSharding(mesh, P())
    )
    with pytest.raises(jax.errors.JaxRuntimeError) as raised:
        program(jax.jit(lambda x: 2 * x), x)
    (found,) = re.findall(r"available HBM \(([\d.]+)G\)", str(raised.value))
    ours = TPUS[machine.split(":")[0]].memory / 2**30

    # Versions of libtpu differ in the last figures.
    assert float(found) == pytest.approx(ours, rel=0.005)
