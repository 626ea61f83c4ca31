"""What a right ``auto_mesh`` must show."""

import jax

from shardgrade.grading import measures, same

COUNT = jax.device_count()
HALF = COUNT // 2
# Of all devices, and of the first half of them.
SHAPES = ((2, HALF), (COUNT, 1), (1, COUNT), (HALF, 1), (1, HALF))
CASES = [f"auto_mesh{shape}" for shape in SHAPES]
TOO_LARGE = ((COUNT + 1, 1), (1, 2 * COUNT), (2, COUNT))
EXAMPLE = CASES[0]
CHECKS = {
    "mesh": same.contract(
        CASES, measures.types, "the result is not a Mesh"
    ),
    "shape": same.structure(
        CASES,
        lambda seen: str(dict(seen.result.shape)),
        'the axes must be "data" and "model", in this order, with as many '
        "devices as asked for",
    ),
    "axis_types": same.structure(
        CASES,
        lambda seen: str(seen.result.axis_types),
        "both axes must be Auto",
        read="The types of the axes",
    ),
    "devices": same.placement(
        CASES,
        lambda seen: f"ids {seen.result.device_ids.tolist()}",
        "the mesh must have the first devices, row by row",
        read="On eight devices",
    ),
    "too_large": same.refusal(
        [f"auto_mesh{shape}" for shape in TOO_LARGE],
        "the mesh needs more devices than exist: raise a ValueError",
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("axis_types", "The types of the axes"),
    ("unexpected keyword argument 'axis_s", "The types of the axes"),
    ("before backends are init", "Devices that are asked for too late"),
    ("[Nn]umber of devices|cannot reshape", "On eight devices"),
)
