"""Give the devices of a machine that is not here, to compile for them."""

import math
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
from jax.experimental import topologies

_GIB = 2**30
_FLAT = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_SMALL = ("2x2x1", "2x2x2", "2x2x4", "2x4x4")


# What the extras of jax bring, and what else its plugin for GPUs needs.
_NEEDED = {
    "tpu": "libtpu",
    "cuda12-local": "its plugin for CUDA and NVIDIA's assembler",
}
_ASSEMBLER = "nvidia-cuda-nvcc-cu12 nvidia-cuda-runtime-cu12"


class _Tpu(NamedTuple):
    """A kind of TPU chip, as Google Cloud's documentation describes it.

    Attributes:
        kind: The name that jax has for it.
        memory: Bytes that libtpu leaves to a program: the figure that its
            errors name, of version 0.0.50.
        slices: The slices by name; where slices are made of cubes of 4 by
            4 by 4 chips too, those that are smaller than a cube.
        cubes: How many chips the largest slice of cubes has, if any.
        options: What describes it to libtpu, in addition to its name.
    """

    kind: str
    memory: int
    slices: tuple[str, ...]
    cubes: int = 0
    options: Mapping[str, Any] = MappingProxyType({})


class _Gpu(NamedTuple):
    """A kind of GPU, as NVIDIA's data sheets describe it.

    What a multiprocessor has is in the CUDA programming guide, by compute
    capability.

    Attributes:
        kind: The name that its driver and jax have for it.
        memory: GB of memory, of the data sheet.
        capability: The compute capability, times ten.
        cores: Streaming multiprocessors.
        shared: KiB of shared memory of a multiprocessor.
        bandwidth: GB a second of the memory.
        cache: MiB of the L2 cache.
        clock: Highest clock rate, in GHz.
    """

    kind: str
    memory: int
    capability: int
    cores: int
    shared: int
    bandwidth: int
    cache: int
    clock: float


TPUS = {
    "v4": _Tpu(
        "TPU v4",
        int(30.75 * _GIB),
        _SMALL,
        4096,
        # As jax has them: both cores of a chip are one device.
        {"chip_config_name": "megacore"},
    ),
    "v5e": _Tpu("TPU v5 lite", int(15.75 * _GIB), _FLAT),
    "v5p": _Tpu("TPU v5", int(95.73 * _GIB), _SMALL, 6144),
    "v6e": _Tpu("TPU v6 lite", int(31.24 * _GIB), _FLAT),
}
GPUS = {
    "a100": _Gpu("NVIDIA A100-SXM4-80GB", 80, 80, 108, 164, 2039, 40, 1.41),
    "h100": _Gpu("NVIDIA H100 80GB HBM3", 80, 90, 132, 228, 3352, 50, 1.98),
    "h200": _Gpu("NVIDIA H200", 141, 90, 132, 228, 4800, 50, 1.98),
    "b200": _Gpu("NVIDIA B200", 180, 100, 148, 228, 7700, 126, 1.965),
}

# Bytes of memory that a program can have on a device of each kind.
MEMORY = {
    **{tpu.kind: tpu.memory for tpu in TPUS.values()},
    **{gpu.kind: gpu.memory * 10**9 for gpu in GPUS.values()},
}


def devices_of(machine: str) -> list[jax.Device]:
    """Return the devices of a TPU slice or a GPU cluster.

    You don't need the machine: with its compiler installed, you can
    compile programs for these devices, but you can't run anything on them.

    For GPUs that are not here, jax leaves out the memory kind of arguments,
    so arrays that are offloaded to the host count as device memory. For
    TPUs they don't.

    Args:
        machine: A TPU chip and the sizes of a slice, such as ``"v5e:4x4"``
            or ``"v5p:8x8x16"``, or a GPU and the number of hosts and of
            GPUs in each, such as ``"h100:16x8"``. The chips are v4, v5e,
            v5p and v6e; a100, h100, h200 and b200.

    Returns:
        The devices, for :func:`jax.make_mesh`.

    Raises:
        ValueError: If the chip is unknown or has no slice of these sizes,
            or if a host would have more than eight GPUs.
        ImportError: If the compiler is not installed: libtpu for TPUs, or
            jax's plugin and NVIDIA's assembler for GPUs. The message has
            the command that installs what is missing. Both compilers are
            published for Linux.
        NotImplementedError: If jax looks for a GPU and finds none. Set
            ``JAX_PLATFORMS=cpu`` before you start Python.

    Example:
        >>> from shardscope import devices_of
        >>> devices_of("v5e:3x4")
        Traceback (most recent call last):
        ...
        ValueError: Unknown slice '3x4' of v5e. Known: 1x1, 2x2, 2x4, ...
    """
    chip, _, sizes = machine.lower().partition(":")
    if chip in TPUS:
        return _tpus(chip, sizes)
    if chip in GPUS:
        return _gpus(chip, sizes)
    raise ValueError(
        f"Unknown chip {chip!r}. Known TPUs: {', '.join(TPUS)}; GPUs: "
        f"{', '.join(GPUS)}. Name one with its size, such as 'v5e:4x4' or "
        f"'h100:16x8'{_guess(machine.lower())}"
    )


def _guess(machine: str) -> str:
    """Ask whether a name with a number of GPUs means hosts of eight."""
    for chip in GPUS:
        numbers = re.findall(r"\d+", machine.replace(chip, "")) or ["8"]
        if chip in machine and len(numbers) == 1:
            hosts, more = divmod(int(numbers[0]), 8)
            size = f"{hosts}x8" if not more else f"1x{more}"
            if bool(hosts) != bool(more):
                return f"; did you mean {chip}:{size}?"
    return ""


def _tpus(chip: str, sizes: str) -> list[jax.Device]:
    tpu = TPUS[chip]
    if sizes not in tpu.slices and not _is_of_cubes(sizes, tpu):
        known = ", ".join(tpu.slices)
        if tpu.cubes:
            known += (
                ", and three multiples of 4 in rising order, of at most "
                f"{tpu.cubes:,} chips, such as 4x4x8"
            )
        raise ValueError(
            f"Unknown slice {sizes!r} of {chip}. Known: {known}. Name one "
            f"as in '{chip}:{tpu.slices[1]}'"
        )
    _require("TPUs", "tpu", "libtpu")
    options = dict(tpu.options)
    if sizes == "1x1":
        # libtpu takes hosts to have four chips at least.
        options["chips_per_host_bounds"] = (1, 1, 1)
    with _quiet_libtpu():
        return topologies.get_topology_desc(
            f"{chip}:{sizes}", "tpu", **options
        ).devices


def _is_of_cubes(sizes: str, tpu: _Tpu) -> bool:
    """Tell whether a slice consists of whole cubes of 4 by 4 by 4 chips."""
    if not re.fullmatch(r"\d+x\d+x\d+", sizes):
        return False
    numbers = [int(size) for size in sizes.split("x")]
    return (
        numbers == sorted(numbers)
        and all(number and number % 4 == 0 for number in numbers)
        and math.prod(numbers) <= tpu.cubes
    )


@contextmanager
def _quiet_libtpu() -> Iterator[None]:
    """Keep libtpu from looking for the TPU of this machine.

    It would ask a server of Google Cloud, write to stderr that there is
    none, and let no other process load it. Where there is a TPU, it must
    be found.
    """
    here = [*Path("/dev").glob("accel*"), *Path("/dev/vfio").glob("[0-9]*")]
    names = {
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "true",
        "TPU_ACCELERATOR_TYPE": "v5litepod-8",
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_WORKER_HOSTNAMES": "localhost",
    }
    missing = {} if here else names.keys() - os.environ.keys()
    os.environ.update({name: names[name] for name in missing})
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


def _gpus(chip: str, sizes: str) -> list[jax.Device]:
    gpu = GPUS[chip]
    if not re.fullmatch(r"[1-9]\d*x[1-8]", sizes):
        raise ValueError(
            f"Unknown size {sizes!r} of a cluster of {chip}. Name the "
            "number of hosts, and of GPUs in each, up to 8, as in "
            f"'{chip}:16x8'{_guess(f'{chip}:{sizes}')}"
        )
    _require(
        "GPUs", "cuda12-local", "jax_plugins.xla_cuda12", "nvidia.cuda_nvcc"
    )
    return topologies.get_topology_desc(
        chip, "cuda", topology=f"1x{sizes}", target_config=_describe(gpu)
    ).devices


def _describe(gpu: _Gpu) -> str:
    """Describe a GPU as XLA's GpuTargetConfigProto does, in text."""
    major, minor = divmod(gpu.capability, 10)
    return f"""
        gpu_device_info {{
            cuda_compute_capability {{ major: {major} minor: {minor} }}
            core_count: {gpu.cores}
            device_memory_size: {gpu.memory * 10**9}
            memory_bandwidth: {gpu.bandwidth * 10**9}
            l2_cache_size: {gpu.cache * 2**20}
            clock_rate_ghz: {gpu.clock}
            shared_memory_per_core: {gpu.shared * 2**10}
            shared_memory_per_block_optin: {(gpu.shared - 1) * 2**10}
            shared_memory_per_block: {48 * 2**10}
            fpus_per_core: {64 if gpu.capability == 80 else 128}
            threads_per_block_limit: 1024
            threads_per_core_limit: 2048
            threads_per_warp: 32
            registers_per_block_limit: {64 * 2**10}
            registers_per_core_limit: {64 * 2**10}
            block_dim_limit_x: {2**31 - 1}
            block_dim_limit_y: {2**16 - 1}
            block_dim_limit_z: {2**16 - 1}
        }}
        platform_name: "CUDA"
        dnn_version_info {{ major: 9 minor: 8 }}
        device_description_str: "{gpu.kind}"
    """


def _require(what: str, extra: str, *modules: str) -> None:
    """Refuse, with the command that installs it, what is not there."""
    if all(map(_is_installed, modules)):
        return
    needs = f"To compile for {what}, jax needs {_NEEDED[extra]}"
    machine = platform.machine()
    if sys.platform != "linux" or machine not in ("x86_64", "aarch64"):
        raise ImportError(
            f"{needs}. They are published for Linux, on x86-64 and partly "
            f"on ARM; this is {platform.system()} on {machine}"
        )
    raise ImportError(
        f"{needs}. To install what is missing: "
        f'python3 -m pip install "jax[{extra}]=={jax.__version__}"'
        + (f" {_ASSEMBLER}" if extra != "tpu" else "")
    )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
