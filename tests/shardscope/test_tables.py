"""Tables as text and as HTML, of any rows."""

import re
from dataclasses import replace

import jax.numpy as jnp
import pytest

from shardscope import program
from shardscope.programs.table import _IN_PATHS
from shardscope.tables import Column, Table, text_of

pytestmark = pytest.mark.newest

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
    total=True,
)
MOMENTS = Table(
    (Column("arguments"), Column("bytes on one device", right=True)),
    tuple(
        (f"optimizer.opt_state.0.{moment}.mlp.{name}.kernel", "8")
        for moment in ("mu", "nu")
        for name in ("wi", "wo")
    ),
    keeps_start=True,
    indent="  ",
)
LINES = Table(
    (Column("collectives"), Column("bytes", right=True)),
    (
        ("2 all-gather over data, forward, model.py:7", "64"),
        ("1 all-reduce over data, forward, model.py:7", "64"),
        ("1 all-reduce over data, backward, model.py:8", "64"),
        ("1 all-reduce over data, forward, model.py:8", "64"),
    ),
    joints=("(?<=, )",),
    keeps_start=True,
)


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        (None, "a.very.long.path.of.a.kernel  float32[8]     32     256"),
        (80, "a.very.long.path.of.a.kernel  float32[8]     32     256"),
        (48, "a….path.of.a.kernel    float32[8]     32     256"),
        (40, "a….path.of.a.kernel    float32[8]     32"),
        (30, "a….long.path.of.a.kernel    32"),
        (5, "….kernel  32"),
    ],
)
def test_what_a_narrow_terminal_leaves_out(
    columns: int | None, row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns of the highest rank go first, and parts from the left."""
    if columns:
        monkeypatch.setenv("COLUMNS", str(columns))
    heading, first, _ = text_of(TABLE).splitlines()

    assert first == row
    assert len(heading) == len(first)


@pytest.mark.parametrize("columns", [200, 60, 50, 40, 20])
def test_no_two_rows_look_the_same(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What tells rows apart stays, even where it is too wide."""
    monkeypatch.setenv("COLUMNS", str(columns))
    for table in (MOMENTS, LINES):
        rows = text_of(table).splitlines()[1:]

        assert len({*rows}) == 4
    moments = text_of(MOMENTS).splitlines()[1:]
    assert [row.count("mu") for row in moments] == [1, 1, 0, 0]
    assert all(row.startswith("  optimizer") for row in moments)


def test_what_tells_rows_apart() -> None:
    """It depends on the rows, also on those that are not shown."""
    rows = [row[0] for row in MOMENTS.rows]
    alone = replace(MOMENTS, rows=MOMENTS.rows[:1])

    assert MOMENTS.shortened(rows[0], 0) == "optimizer….mu….wi.kernel"
    assert alone.shortened(rows[0], 0) == "optimizer….kernel"
    assert (
        replace(alone, hidden=rows[1:]).shortened(rows[0], 0)
        == "optimizer….mu….wi.kernel"
    )
    assert (
        replace(alone, keeps_start=False).shortened(rows[0], 0)
        == "….kernel"
    )


def test_a_collective_keeps_its_kind_and_its_line() -> None:
    """The direction goes, where no other row has another one."""
    assert [LINES.shortened(row[0], 0) for row in LINES.rows] == [
        "2 all-gather over data, …model.py:7",
        "1 all-reduce over data, …model.py:7",
        "1 all-reduce over data, backward, model.py:8",
        "1 all-reduce over data, forward, model.py:8",
    ]


def test_a_row_loses_the_start_of_a_path_first() -> None:
    """What a collective moves stays, and then the direction goes."""
    row = "4 all-gather of params.blocks.*.up.kernel over data, "
    table = Table(
        LINES.columns,
        ((f"{row}forward, model.py:7", "64"),),
        joints=(_IN_PATHS, "(?<=, )"),
        keeps_start=True,
    )
    start = "4 all-gather of params….up.kernel over data, "

    assert table.parts(f"{row}x.py:7")[-2:] == [
        ".up.kernel over data, ",
        "x.py:7",
    ]
    for room, end in [(64, "forward, model.py:7"), (0, "…model.py:7")]:
        assert table.shortened(table.rows[0][0], room) == f"{start}{end}"


def test_a_long_name_has_the_room_above_short_numbers() -> None:
    """A long name goes on where the number of its own row begins."""
    rows = (("x" * 30, "7"), ("y" * 30, "1,000,000"))
    columns = (Column("memory"), Column("a long unit", right=True))
    short, long = text_of(Table(columns, rows)).splitlines()[1:]

    assert short == f"{'x' * 30}          7"
    assert long == f"{'y' * 30}  1,000,000"


def test_tables_below_each_other_are_equally_wide() -> None:
    """The numbers of all are below each other."""
    narrow = Table((Column("a"), Column("b", right=True)), (("c", "1"),))
    lines = text_of(narrow, MOMENTS).splitlines()

    assert {len(line) for line in lines} == {len(lines[-1])}


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
