"""Devices of machines that are not here, and what is compiled for them."""

import math
import os
import re
from importlib.util import find_spec
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

from shardscope import devices_of, program
from shardscope.machines.devices import GPUS, TPUS

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
        ("h100:8", "'h100:16x8'; did you mean h100:1x8"),
        ("H100", "did you mean h100:1x8"),
        ("8xH100", "did you mean h100:1x8"),
        ("b200x16", "did you mean b200:2x8"),
        ("a100:4", "did you mean a100:1x4"),
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
        "shardscope.machines.devices.find_spec",
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
    monkeypatch.setattr(
        "shardscope.machines.devices.find_spec", lambda _: None
    )
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
    assert Path(seen.line.rpartition(":")[0]).name == Path(__file__).name
    assert report.available
    assert report.memory.total < report.available


@pytest.mark.parametrize("machine", MACHINES)
def test_weights_that_each_chip_moves(machine: str) -> None:
    """A collective of stacked weights has the name of these."""
    mesh = jax.make_mesh(
        (4,), ("data",), (AxisType.Auto,), devices=devices_of(machine)
    )

    def struct(*shape: int, spec: P) -> jax.ShapeDtypeStruct:
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)

    def loss(ws: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        def layer(
            x: jax.Array, w: dict[str, jax.Array]
        ) -> tuple[jax.Array, None]:
            return jnp.tanh(x @ w["up"]) @ w["down"], None

        return jax.lax.scan(layer, x, ws)[0].sum()

    rows = P(None, "data")
    ws = {
        "down": struct(3, 512, 256, spec=rows),
        "up": struct(3, 256, 512, spec=rows),
    }
    x = struct(65536, 256, spec=P("data"))
    report = program(jax.grad(loss), ws, x)
    # Some pass the parts of weights around instead of gathering them.
    moved = {
        path for each in report.communication for path in each.arguments
    }

    assert moved - {""} == {"ws.down", "ws.up"}


HOST, DEVICE = jax.memory.Space.Host, jax.memory.Space.Device


def mesh_of(machine: str) -> Mesh:
    """Give a mesh of the four devices of a machine."""
    devices = jax.devices()[:4] if machine == "cpu" else devices_of(machine)
    return jax.make_mesh((4,), ("x",), (AxisType.Auto,), devices=devices)


@pytest.mark.parametrize(
    "machine",
    [
        "cpu",
        pytest.param("v5e:2x2", marks=needs_tpus),
        pytest.param("h100:1x4", marks=needs_gpus),
    ],
)
@pytest.mark.parametrize("donate", [(), (0,)])
def test_the_total_is_what_xla_gives(
    machine: str, donate: tuple[int, ...]
) -> None:
    """Temporaries that hold results or arguments are not counted twice."""

    def layer(x: jax.Array, w: jax.Array) -> tuple[jax.Array, None]:
        return jnp.tanh(x @ w), None

    def update(w: jax.Array, x: jax.Array) -> jax.Array:
        scan = jax.checkpoint(lambda w: jax.lax.scan(layer, x, w)[0].sum())
        return w - jax.grad(scan)(w)

    mesh = mesh_of(machine)
    w = jax.ShapeDtypeStruct(
        (8, 2048, 2048), jnp.float32, sharding=NamedSharding(mesh, P())
    )
    x = jax.ShapeDtypeStruct(
        (2**15, 2048), jnp.float32, sharding=NamedSharding(mesh, P("x"))
    )
    jitted = jax.jit(update, donate_argnums=donate)
    stats = jitted.lower(w, x).compile().memory_analysis()
    memory = program(jitted, w, x).memory
    total = getattr(stats, "total_allocation_bytes", memory.total)

    assert memory.donated == (memory.results if donate else 0)
    assert memory.total == pytest.approx(total, abs=1024)
    assert memory.host == 0


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param("v5e:2x2", marks=needs_tpus),
        pytest.param("h100:1x4", marks=needs_gpus),
    ],
)
def test_captured_arrays(machine: str) -> None:
    """A constant is part of what the chip's memory has to hold."""
    kernel = jax.random.normal(jax.random.key(0), (1024, 1024))
    x = jax.ShapeDtypeStruct(
        (64, 1024),
        jnp.float32,
        sharding=NamedSharding(mesh_of(machine), P("x")),
    )
    jitted = jax.jit(lambda x: x @ kernel)
    seen = program(jitted, x)
    stats = jitted.lower(x).compile().memory_analysis()
    total = getattr(stats, "total_allocation_bytes", seen.memory.total)

    # libtpu keeps it as bfloat16, in which it multiplies.
    assert seen.memory.constants >= kernel.nbytes // 2
    assert seen.memory.total == pytest.approx(total, abs=1024)
    assert seen.constants[0].line.startswith(__file__)


@needs_tpus
@pytest.mark.parametrize("rows", [1024, 8192])
def test_weights_on_the_host_of_a_tpu(rows: int) -> None:
    """What is offloaded is in none of the figures of the device."""
    mesh = mesh_of("v5e:2x2")
    place = NamedSharding(mesh, P("x"), memory_kind="pinned_host")
    w = jax.ShapeDtypeStruct((rows, 4096), jnp.float32, sharding=place)
    x = jax.ShapeDtypeStruct(
        (4096,), jnp.float32, sharding=NamedSharding(mesh, P())
    )

    @jax.jit
    def function(w: jax.Array, x: jax.Array) -> jax.Array:
        return jax.device_put(jax.device_put(w, DEVICE) * x, HOST)

    seen = program(function, w, x)
    stats = function.lower(w, x).compile().memory_analysis()
    size = rows * 4096 * 4 // 4

    assert seen.memory.host == 2 * size
    assert seen.host_argument_bytes == {"w": size}
    assert seen.argument_bytes == {"x": 4 * 4096}
    assert seen.memory.arguments == 4 * 4096
    assert size <= seen.memory.temporaries < 2 * size + 2**17
    total = getattr(stats, "total_allocation_bytes", seen.memory.total)
    assert seen.memory.total == pytest.approx(total, abs=1024)
    assert "on the host, not in the total" in repr(seen)


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param("v5e:2x2", marks=needs_tpus),
        pytest.param("h100:1x4", marks=needs_gpus),
    ],
)
def test_activations_on_the_host(machine: str) -> None:
    """What a policy of jax.checkpoint offloads is the host's."""
    mesh = mesh_of(machine)
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["x"],
        offload_src="device",
        offload_dst="pinned_host",
    )

    def layer(x: jax.Array, w: jax.Array) -> tuple[jax.Array, None]:
        return jnp.tanh(checkpoint_name(x, "x") @ w), None

    @jax.jit
    @jax.grad
    def function(w: jax.Array, x: jax.Array) -> jax.Array:
        scan = jax.checkpoint(
            lambda w: jax.lax.scan(layer, x, w)[0].sum(), policy=policy
        )
        return scan(w)

    w = jax.ShapeDtypeStruct(
        (8, 1024, 1024), jnp.float32, sharding=NamedSharding(mesh, P())
    )
    x = jax.ShapeDtypeStruct(
        (2**15, 1024), jnp.float32, sharding=NamedSharding(mesh, P("x"))
    )
    memory = program(function, w, x).memory
    stats = function.lower(w, x).compile().memory_analysis()
    total = getattr(stats, "total_allocation_bytes", memory.total)

    # What eight layers get, on each of four devices.
    assert memory.host == 8 * 2**13 * 1024 * 4
    assert memory.total == pytest.approx(total, abs=1024)


@needs_gpus
def test_a_ragged_all_to_all_of_gpus() -> None:
    """What is sent depends on data, and is not more than the array."""
    mesh = jax.make_mesh(
        (8,), ("expert",), (AxisType.Auto,), devices=devices_of("h100:1x8")
    )
    rows = NamedSharding(mesh, P("expert"))
    x = jax.ShapeDtypeStruct((512, 128), jnp.bfloat16, sharding=rows)
    sizes = jax.ShapeDtypeStruct((64,), jnp.int32, sharding=rows)

    @jax.jit
    @jax.shard_map(
        mesh=mesh,
        in_specs=P("expert"),
        out_specs=P("expert"),
        check_vma=False,
    )
    def send(x: jax.Array, *sizes: jax.Array) -> jax.Array:
        whole = jnp.zeros((512, 128), x.dtype)
        return jax.lax.ragged_all_to_all(
            x, whole, *sizes, axis_name="expert"
        )

    (seen,) = program(send, x, *[sizes] * 4).communication

    assert seen.kind == "ragged-all-to-all"
    assert seen.sent == seen.bytes == 64 * 128 * 2
    assert not seen.exact


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
