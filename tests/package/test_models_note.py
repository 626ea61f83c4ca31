"""What "nox -s models" has noted, which a page shows, is not stale."""

import re
from pathlib import Path

import jax
import pytest
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from shardscope import layout

ROOT = Path(__file__).parents[2]
NOTE = (ROOT / "benchmarks" / "models.txt").read_text("utf-8")
AGAIN = "run nox -s models"
# Of Llama 3.1 405B.
SHAPES = {
    "embedder.input_embedding": (128256, 16384),
    "final_norm.w": (16384,),
    "layers.*.attn.k_proj.w": (16384, 8, 128),
    "layers.*.attn.o_proj.w": (128, 128, 16384),
    "layers.*.attn.q_proj.w": (16384, 128, 128),
    "layers.*.attn.v_proj.w": (16384, 8, 128),
    "layers.*.input_layernorm.w": (16384,),
    "layers.*.mlp.down_proj.kernel": (53248, 16384),
    "layers.*.mlp.gate_proj.kernel": (16384, 53248),
    "layers.*.mlp.up_proj.kernel": (16384, 53248),
    "layers.*.post_attention_layernorm.w": (16384,),
    "lm_head.w": (16384, 128256),
}


def test_the_versions_are_those_of_the_site() -> None:
    """The note was made with the versions that the site is built with."""
    lock = (ROOT / "locks" / "3.13.txt").read_text("utf-8")
    for name in ("jax", "flax"):
        locked = re.search(rf"^{name}==(\S+)", lock, re.M)
        assert locked

        assert f", {name} {locked[1]}," in NOTE, AGAIN


def test_the_layout_prints_as_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tree with the noted paths and specs prints as noted."""
    # No path is shortened.
    monkeypatch.setenv("COLUMNS", "99")
    title = "--- tunix llama3p1_405b on 512 ---\n"
    noted = NOTE.partition(title)[2].partition("\n\n")[0]
    mesh = AbstractMesh((128, 4), ("fsdp", "tp"))
    tree = {}
    for row in noted.splitlines()[1:-1]:
        path, times, spec = re.findall(
            r"^(\S+)(?: ×(\d+))? +\S+ +P\((.*?)\)", row
        )[0]
        names = [name.strip("' ") for name in spec.split(",")]
        axes = (None if name == "None" else name for name in names)
        array = jax.ShapeDtypeStruct(
            SHAPES[path],
            "float32",
            sharding=NamedSharding(mesh, PartitionSpec(*axes)),
        )
        for number in range(int(times or 1)):
            tree[path.replace("*", f"{number:03}")] = array

    assert repr(layout(tree)) == noted, AGAIN
