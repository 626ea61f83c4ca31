"""Share out the pages among the processes that read them, by cost.

Sphinx cuts the list of pages into shares of so many pages, and starts with
the first of them, one for each process.
"""

from collections.abc import Mapping
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
    order: list[str] = []
    for some in (sizes[:processes], sizes[processes:]):
        shares: list[list[str]] = [[] for _ in some]
        for name in pages[len(order) : len(order) + sum(some)]:
            # Those that have room.
            roomy = [
                mine
                for mine, size in zip(shares, some, strict=True)
                if len(mine) < size
            ]
            min(roomy, key=lambda mine: sum(costs[n] for n in mine)).append(
                name
            )
        order += [name for mine in shares for name in mine]
    return order


def reorder(
    app: Sphinx, env: BuildEnvironment, docnames: list[str]
) -> None:
    """Reorder the pages that are to be read."""
    costs = {name: cost(env.doc2path(name)) for name in docnames}
    docnames[:] = shared_out(costs, app.parallel)


def setup(app: Sphinx) -> None:
    """Reorder the pages before they are read."""
    app.connect("env-before-read-docs", reorder)
