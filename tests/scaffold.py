"""Write the files of a new problem, each with what to write in it.

Run it with "nox -s new -- NAME". "nox -s problem -- NAME" then says what to
write next.
"""

import argparse
import keyword
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAP = ROOT / "src/shardbook/problems/__init__.py"
# In the templates, words in capitals are what the writer replaces.
SOLUTION = '''\
"""SAY IN A LINE WHAT IT DOES."""

import jax
from jax.sharding import Mesh


def NAME(x: jax.Array, mesh: Mesh) -> jax.Array:
    """Return WHAT.

    Args:
        x: Input, float32 ``(batch, in_dim)``, ON WHICH DEVICES.
        mesh: Mesh with Auto axes ``"data"`` and ``"model"``.

    Returns:
        THE THING THAT THE PROBLEM IS ABOUT, so that a check can see it.
        Such as an array with its sharding, or a step that is called later.

    Raises:
        ValueError: If WHAT.

    Example:
        ``NAME(x, mesh).sharding.spec`` is ``P("data")``.

    References:
        AUTHOR, *TITLE*, YEAR, SECTION, ADDRESS
    """
    # --- solution ---
    raise NotImplementedError("write src/shardbook/problems/NAME.py")
'''
TEST = '''\
"""SAY IN A LINE WHAT IS TESTED."""

import jax
import numpy as np
import pytest

from shardbook import inputs, program
from shardbook.problems.NAME import NAME

X = inputs.normal(8, 4)


@pytest.mark.parametrize("data", [1, 2, 8])
def test_the_result_is_that_of_numpy(data: int) -> None:
    """NAME gives NumPy's values, sharded over "data"."""
    data = min(data, jax.device_count())
    mesh = inputs.mesh_of(data, jax.device_count() // data)
    result = NAME(X, mesh)
    report = program(NAME, X, mesh)
    # The solution is what attempts are compared with: compute what it must
    # give in NumPy, on one device, without its helpers.
    expected = NotImplemented

    assert expected is not NotImplemented, (
        "write tests/problems/test_NAME.py: the values in NumPy, the "
        "sharding and the collectives, on 1, 2, 4 and 8 devices"
    )
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    assert report.collectives == {}
'''
CHECK = '''\
"""What a right ``NAME`` must show."""

from shardbook.grading import measures
from shardbook.grading.agreement import same, same_type
from shardbook.grading.cases import on_meshes

# A call as code, with the names of shardbook.inputs, for each mesh of all
# devices: on two these are 1 by 2 and 2 by 1.
CASES = on_meshes("NAME(normal(8, 4), {mesh})")
EXAMPLE = CASES[0].call
# What must agree with the solution, what it means if it does not, and the
# heading of the page to read then.
CHECKS = (
    same_type(*CASES),
    same(
        "values",
        CASES,
        measures.result,
        "SAY WHAT OTHER VALUES MEAN",
        "HEADING",
    ),
    same(
        "placement",
        CASES,
        measures.shards,
        "SAY WHAT ANOTHER SHARDING MEANS",
        "HEADING",
    ),
    same(
        "communication",
        CASES,
        measures.collectives,
        "SAY WHAT OTHER COLLECTIVES MEAN",
        "HEADING",
    ),
)
# What to read when an attempt raises: words of the error, a heading.
ERRORS = (("divi(sible|de)", "HEADING"),)
DEPRECATED = "Sources"

raise NotImplementedError(
    "write src/shardbook/checks/NAME.py, then remove its last lines"
)
'''
EDITS = """\
# What readers write, as edits of the solution, and what the grader must
# find. At least three attempts are wrong. At least one beside the solution
# is right: it keeps a check from asking for more than the problem does.
# Attempts that are written another way are files in right/ and wrong/.
#
# "wrong" returns what the check must refuse, "crashed" raises. The checks
# are contract, values, structure, placement, communication, deprecated.
#
# [wrong.values.ATTEMPT]
# why = "SAY WHAT THE READER DID."
# edits = [["TEXT OF THE SOLUTION, FOUND ONCE", "WHAT THE READER WROTE"]]
#
# [crashed.contract.ATTEMPT]
# why = "SAY WHAT THE READER DID."
# edits = [["TEXT OF THE SOLUTION, FOUND ONCE", "WHAT THE READER WROTE"]]
#
# [right.ATTEMPT]
# why = "SAY IN WHAT IT DIFFERS."
# edits = [["TEXT OF THE SOLUTION, FOUND ONCE", "WHAT THE READER WROTE"]]
"""
PAGE = """\
---
file_format: mystnb
kernelspec: {name: python3, display_name: Python 3, language: python}
difficulty: (EASY, MEDIUM OR HARD)
category: (ONE OF THE OTHER PAGES, OR A NEW ONE)
tags: (JAX, WHAT ELSE)
summary: (SAY IN A SENTENCE WHAT THE READER WILL SEE)
---

# TITLE

## Why this matters

SAY WHERE THE READER WILL MEET THIS.

## The API

SAY WHICH FUNCTIONS OF JAX AND FLAX IT TAKES, AND SHOW THEM.

```{code-cell} python
import flax
import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from shardbook import collectives, draw, layout, program, raises
from shardbook.inputs import normal

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
mesh = jax.make_mesh((2, 4), ("data", "model"), (AxisType.Auto,) * 2)
print(
    f"jax {jax.__version__}, flax {flax.__version__},",
    f"{jax.device_count()} devices",
)
```

## On eight devices

DRAW WHAT HAPPENS ON THE MESH, AND ASSERT IT.
A QUESTION STANDS BEFORE THE CELL THAT ANSWERS IT; A PAGE HAS 2 TO 4:

:::{predict} WHAT DOES EACH DEVICE HOLD?
- [ ] `float32[8,4]`, ALL OF IT
- [x] `float32[4,4]`, HALF OF IT

SAY WHY.
:::

```{code-cell} python
raise NotImplementedError("write docs/problems/NAME.md")
```

## Problem

Write `NAME(x, mesh)`: SAY WHAT IT TAKES AND WHAT IT RETURNS.

## Hints

:::{admonition} THE IDEA
:class: hint
:collapsible: closed
A HINT.
:::

## Your attempt

```{attempt} NAME
```

## Solution

SAY HOW IT WORKS.

```{solution} NAME
```

```{code-cell} python
from shardbook.problems import NAME as solution

solution.NAME(normal(8, 4), mesh)
```

## Pitfalls

### WHAT WENT WRONG

SHOW EACH MISTAKE IN A CELL; WHERE IT RAISES, WITH `raises`.

## Sources

SAY WHERE THE PROBLEM COMES FROM, WITH LINKS.
"""
# In the order in which they are written.
FILES = {
    "src/shardbook/problems/NAME.py": SOLUTION,
    "tests/problems/test_NAME.py": TEST,
    "src/shardbook/checks/NAME.py": CHECK,
    "tests/attempts/NAME/edits.toml": EDITS,
    "docs/problems/NAME.md": PAGE,
}


def named(text: str, name: str) -> str:
    """Put the name of the problem where NAME stands as a word."""
    return re.sub(r"(?<![A-Za-z])NAME(?![A-Za-z])", name, text)


def main() -> None:
    """Write the files, and add the problem to the end of the map."""
    parser = argparse.ArgumentParser(prog="nox -s new --")
    parser.add_argument("name", help="the function that readers write")
    name = parser.parse_args().name
    if not name.isidentifier() or keyword.iskeyword(name):
        sys.exit(
            f"{name!r} can't be the name of a function: give one such as "
            "'column_parallel'"
        )
    paths = {ROOT / named(path, name): path for path in FILES}
    present = [str(p.relative_to(ROOT)) for p in paths if p.exists()]
    if present:
        sys.exit(
            f"{', '.join(present)}: there already, so nothing is written. "
            "Choose another name, or remove what is there."
        )
    for path, template in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(named(FILES[template], name), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    head, end = MAP.read_text("utf-8").rsplit(")\n", 1)
    MAP.write_text(f'{head}    "{name}",\n)\n{end}', encoding="utf-8")
    print(
        f"added {name} to the end of {MAP.relative_to(ROOT)}: move it to "
        "where a reader should take it"
    )
    print(f"Next: nox -s problem -- {name}")


if __name__ == "__main__":
    main()
