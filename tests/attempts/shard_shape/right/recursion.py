"""One array axis after the other, with the names that are left."""


def shard_shape(shape, spec, mesh):
    if len(spec) > len(shape):
        raise ValueError(f"{len(spec)} is more than {len(shape)}")
    return shards(list(shape), list(spec), dict(mesh.shape), mesh)


def shards(shape, spec, free, mesh):
    if not spec:
        return tuple(shape)
    (size, *shape), (entry, *spec) = shape, spec
    names = {None: ()}.get(
        entry, entry if type(entry) is tuple else [entry]
    )
    parts = 1
    for name in names:
        try:
            parts *= free.pop(name)
        except KeyError:
            known = name in mesh.axis_names
            why = "is taken" if known else f"is none of {mesh.axis_names}"
            raise ValueError(f"{name} {why}") from None
    part, rest = divmod(size, parts)
    if rest:
        raise ValueError(f"{size} is no multiple of {parts}, for {names}")
    return (part, *shards(shape, spec, free, mesh))
