"""Let readers try a shape, a mesh and a spec: the layout explorer."""

import ast
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import ml_dtypes  # noqa: F401  NumPy knows bfloat16 by it
import numpy as np
from docutils import nodes
from docutils.parsers.rst import directives
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import shardscope
from shardbook_site.markup import only_html, only_markdown, render


@dataclass(frozen=True)
class Place:
    """The place of a device in a mesh; JAX sets up no device for it."""

    id: int
    process_index: int = 0
    platform: str = "cpu"
    device_kind: str = "cpu"


class Explorer(SphinxDirective):
    """An explorer that begins with some shape, mesh and spec.

    With "address", the address of the page keeps what the reader chooses.
    """

    option_spec: ClassVar = {
        "address": directives.flag,
        "shape": directives.unchanged_required,
        "mesh": directives.unchanged_required,
        "spec": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """Return the explorer, and the same choice as a drawing."""
        try:
            drawing = shardscope.draw(written(self.options))
        except (KeyError, SyntaxError, ValueError) as error:
            raise self.error(f"not a layout: {error}") from error
        up = "../" * self.env.docname.count("/")
        html = render(
            self.env,
            "explorer.html",
            choice=self.options,
            dtype=np.dtype,
            drawing=drawing._repr_html_(),
            page=f"{up}explorer.html",
        )
        words = nodes.literal_block("", repr(drawing), language="text")
        return [only_html(html), only_markdown(words)]


def written(choice: dict[str, str]) -> Any:
    """Lay out an array as an author writes it in the options."""
    mesh = {}
    for axis in choice["mesh"].split(","):
        name, size = axis.split(":")
        mesh[name.strip()] = int(size)
    call = ast.parse(choice["spec"], mode="eval").body
    if not isinstance(call, ast.Call):
        raise ValueError(f"{choice['spec']!r} is not a spec, as P('data')")
    spec = map(ast.literal_eval, call.args)
    shape = tuple(map(int, choice["shape"].split(",")))
    return abstract_array(shape, mesh, spec)


def abstract_array(
    shape: tuple[int, ...], mesh: dict[str, int], spec: Iterable[Any]
) -> jax.ShapeDtypeStruct:
    """Lay out an array on a mesh, without asking JAX for devices."""
    places = np.array([Place(n) for n in range(math.prod(mesh.values()))])
    devices = Mesh(places.reshape(*mesh.values()), tuple(mesh))
    sharding = NamedSharding(devices, PartitionSpec(*spec))
    return jax.ShapeDtypeStruct(shape, "float32", sharding=sharding)


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("explorer", Explorer)
