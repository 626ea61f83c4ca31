"""Compile the steps in ``docs/_chips`` for chips, and note what they need.

"nox -s elsewhere" runs this, because it takes the compilers of TPUs and
GPUs.
"""

import json
import os
import runpy
import sys
from typing import Any

import jax
from jax.sharding import AxisType, Mesh

from shardbook_site import chips, noted
from shardscope import devices_of, program

# By the names in the table; devices_of has the devices, but for CPUs.
MACHINES = {"CPU": "", "v5e": "v5e:2x4", "H100": "h100:1x8"}


def mesh_on(
    axes: dict[str, int], devices: Any, kind: AxisType = AxisType.Auto
) -> Mesh:
    """Make a mesh of some devices, with axes of one kind."""
    return jax.make_mesh(
        tuple(axes.values()),
        tuple(axes),
        (kind,) * len(axes),
        devices=devices,
    )


def note(name: str) -> None:
    """Compile a step for each machine, and note what it needs."""
    script = runpy.run_path(str(chips.code(name)))
    axes = script["MESH"]
    programs = []
    for machine in MACHINES.values():
        devices = devices_of(machine) if machine else jax.devices()
        step, arguments = script["step_on"](mesh_on(axes, devices))
        programs.append(program(step, *arguments))
    script["check"](*programs)
    found = {
        "noted": noted.today(),
        "code": chips.digest(name),
        "machines": {
            machine: {
                "collectives": dict(each.collectives),
                "sent": {
                    axis: each.sent(axis)
                    for axis, size in axes.items()
                    if size > 1
                },
                "arguments": each.memory.arguments,
                "memory": each.memory.total,
            }
            for machine, each in zip(MACHINES, programs, strict=True)
        },
    }
    text = json.dumps(found, indent=1)
    chips.code(name).with_suffix(".json").write_text(f"{text}\n", "utf-8")


def main(*names: str) -> None:
    """Note these, or all."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    for name in names or chips.NAMES:
        note(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
