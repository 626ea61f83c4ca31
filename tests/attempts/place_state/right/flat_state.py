"""Paths and Variables from a flat state, and each guard by hand."""

import math
import re

import jax
from flax import nnx
from jax.sharding import NamedSharding


def axes_of(entry):
    if entry is None:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def reason(spec, shape, mesh):
    names = [name for entry in spec for name in axes_of(entry)]
    if len(spec) > len(shape):
        return f"{spec} has more entries than {shape}"
    if unknown := set(names) - set(mesh.axis_names):
        return f"the mesh has no {unknown}"
    if len(set(names)) < len(names):
        return f"{spec} names an axis twice"
    for size, entry in zip(shape, spec, strict=False):
        if size % math.prod(mesh.shape[name] for name in axes_of(entry)):
            return f"{spec} does not divide {shape}"
    return ""


def place_state(model, mesh, rules):
    flat, wrong, compiled = {}, [], [(re.compile(p), s) for p, s in rules]
    for keys, variable in nnx.to_flat_state(nnx.state(model)):
        path = ".".join(str(key) for key in keys)
        for pattern, spec in compiled:
            if pattern.fullmatch(path):
                why = reason(spec, variable.shape, mesh)
                break
        else:
            why = "no rule"
        if why:
            wrong.append(f"{path} ({why})")
        else:
            flat[keys] = NamedSharding(mesh, spec)
    if wrong:
        raise ValueError("can't lay out " + ", ".join(wrong))
    placed = nnx.map_state(
        lambda keys, variable: variable.replace(
            jax.device_put(variable.get_value(), flat[keys])
        ),
        nnx.state(model),
    )
    return nnx.merge(nnx.graphdef(model), placed)
