"""Tables as text and as HTML, of any rows."""

import re

import jax.numpy as jnp
import pytest

from shardbook import program
from shardbook.tools.tables import Column, Table, keep_both_ends, keep_end

TABLE = Table(
    (
        Column("path"),
        Column("array", rank=1),
        Column("bytes", right=True),
        Column("in all", right=True, rank=2),
    ),
    (
        ("a.very.long.path.of.a.kernel", "float32[8]", "32", "256"),
        ("sum", "", "32", "256"),
    ),
    keep_end,
    total=True,
)


@pytest.mark.parametrize(
    ("limit", "row"),
    [
        (None, "a.very.long.path.of.a.kernel  float32[8]     32     256"),
        (44, "…path.of.a.kernel  float32[8]     32     256"),
        (40, "…ong.path.of.a.kernel  float32[8]     32"),
        (30, "…ery.long.path.of.a.kernel  32"),
        (5, "…g.path.of.a.kernel  32"),
    ],
)
def test_what_a_narrow_terminal_leaves_out(
    limit: int | None, row: str
) -> None:
    """The first column is cut, and columns of the highest rank go first."""
    heading, first, _ = TABLE.lines(limit)

    assert first == row
    assert len(heading) == len(first)


def test_a_cell_that_is_too_long_keeps_two_blanks() -> None:
    """A long name is cut where the number of its own row begins."""
    rows = (("x" * 30, "7"), ("y" * 30, "1,000,000"))
    columns = (Column("memory"), Column("a long unit", right=True))
    table = Table(columns, rows, keep_both_ends, indent="  ")
    heading, short, long = table.lines(30, fill=True)

    assert heading == "memory             a long unit"
    assert short == f"  {'x' * 10}...{'x' * 12}  7"
    assert long.endswith("y  1,000,000")
    assert {len(heading), len(short), len(long)} == {30}


def test_a_program_as_html() -> None:
    """Each table is a group of rows, and none has a number."""
    page = program(lambda x: 2 * x, jnp.ones(4))._repr_html_()
    groups = re.findall(r"<tbody>(.*?)</tbody>", page)

    assert [
        re.findall('rowgroup">(.*?)</th>', each) for each in groups
    ] == [
        ["memory", "bytes on one device"],
        ["arguments", "bytes on one device"],
        ["collectives", "bytes that a device sends"],
        ["transfers before it starts", "bytes"],
    ]
    assert groups[2].endswith("<td>none</td><td></td></tr>")
