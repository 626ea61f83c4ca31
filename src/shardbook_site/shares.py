"""Share out the pages among the processes that read them, by cost.

Sphinx cuts the list of pages into shares of so many pages, and starts with
the first of them, one for each process.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.parallel import make_chunks

from shardbook_site.cells import CELL


def cost(page: Path) -> int:
    """Estimate how long the cells of a page run: the length of the code."""
    cells = CELL.finditer(page.read_text("utf-8"))
    return sum(len(found["code"]) for found in cells)


def shared_out(costs: Mapping[str, int], processes: int) -> list[str]:
    """Order pages so that all processes end at about the same time.

    The first shares cost the same, each with the dearest page first. So do
    the others, which have what is cheap, for the processes that end early.
    To Sphinx, 0 processes are its own.
    """
    processes = processes or 1
    sizes = [len(share) for share in make_chunks([*costs], processes)]
    pages = sorted(costs, key=lambda name: costs[name], reverse=True)
    count = sum(sizes[:processes])
    return [
        *dealt(pages[:count], costs, sizes[:processes]),
        *dealt(pages[count:], costs, sizes[processes:]),
    ]


def dealt(
    pages: Sequence[str], costs: Mapping[str, int], sizes: Sequence[int]
) -> list[str]:
    """Deal out pages, dearest first, to shares of so many pages each."""
    shares: list[list[str]] = [[] for _ in sizes]
    for name in pages:
        # Those that have room.
        some = [
            mine
            for mine, size in zip(shares, sizes, strict=True)
            if len(mine) < size
        ]
        min(some, key=lambda mine: sum(costs[n] for n in mine)).append(name)
    return [name for mine in shares for name in mine]


def reorder(
    app: Sphinx, env: BuildEnvironment, docnames: list[str]
) -> None:
    """Reorder the pages that are to be read."""
    costs = {name: cost(env.doc2path(name)) for name in docnames}
    docnames[:] = shared_out(costs, app.parallel)


def setup(app: Sphinx) -> None:
    """Reorder the pages before they are read."""
    app.connect("env-before-read-docs", reorder)
