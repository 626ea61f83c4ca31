"""Write the source of a step, with its values in the margin, as HTML."""

import html
import itertools
import linecache
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from shardscope.arrays.paths import pattern_of
from shardscope.lines import name_of
from shardscope.propagation.origins import line_in
from shardscope.propagation.values import ShardedValue
from shardscope.tables import size

# How many lines are shown around one that has values.
_AROUND = 2
# Two reports on a page have targets of their own.
_reports = itertools.count(1)


def html_of_source(
    head: Sequence[str],
    values: Sequence[ShardedValue],
    arguments: Mapping[str, str],
) -> str:
    """Write lines with the values that they compute in the margin.

    Each axis of a value leads to what decided it: an argument, which stands
    above the source, or the line of a constraint.

    Args:
        head: What stands above.
        values: The values.
        arguments: The type of each argument, by its path.
    """
    report = f"why-{next(_reports)}"
    files: defaultdict[str, defaultdict[int, list[ShardedValue]]]
    files = defaultdict(lambda: defaultdict(list))
    for each in values:
        file, _, at = each.line.rpartition(":")
        files[file][int(at or 0)].append(each)
    lines = {
        (file, number): f"{report}-{nth}-{number}"
        for nth, (file, numbers) in enumerate(files.items())
        for number in numbers
    }
    named = {name_of(f"{file}:{at}"): lines[file, at] for file, at in lines}
    causes = dict.fromkeys(x for v in values for _, x in v.because if x)
    places = {
        cause: named.get(line_in(cause), f"{report}-{nth}")
        for nth, cause in enumerate(causes)
    }
    above = [x for x in causes if line_in(x) not in named]
    rows = [_heading("Decided by")] * bool(above)
    for cause in above:
        alike = [
            type_
            for path, type_ in arguments.items()
            if pattern_of(path) == pattern_of(cause)
        ]
        cells = html.escape(cause), _code(*alike[:1])
        rows.append(_row("", *cells, places[cause]))
    for file, numbers in files.items():
        name = name_of(f"{file}:").rstrip(":")
        rows.append(_heading(name or "No line of yours"))
        for number, text in _around(file, numbers):
            place = lines.get((file, number), "")
            margin = "".join(
                _value(value, places) for value in numbers.get(number) or ()
            )
            rows.append(_row(f"{number or ''}", _code(text), margin, place))
    said = "<br>".join(map(html.escape, head))
    return (
        f'<div class="shardscope-table shardscope-why"><p>{said}</p>'
        f"<table>{''.join(rows)}</table></div>"
    )


def _around(file: str, numbers: Iterable[int]) -> Iterator[tuple[int, str]]:
    """Give the lines of a file that have values, and those around them."""
    # Of what was typed or made while it runs, there may be no text.
    text = dict(enumerate(linecache.getlines(file), 1))
    shown = sorted(
        {
            near
            for number in numbers
            for near in range(number - _AROUND, number + _AROUND)
            if near in numbers or text.get(near, "").strip()
        }
    )
    block = textwrap.dedent("".join(text.get(at, "\n") for at in shown))
    last = shown[0]
    for number, line in zip(shown, block.split("\n"), strict=False):
        if any(text.get(x, "").strip() for x in range(last + 1, number)):
            yield 0, "⋮"
        last = number
        yield number, line


def _value(value: ShardedValue, places: Mapping[str, str]) -> str:
    """Write a value, each of its axes as a link to what decided it."""
    causes = iter(value.because)

    def link(found: re.Match[str]) -> str:
        axis, cause = next(causes, ("", ""))
        if not cause:
            return found[0]
        title = html.escape(f"{axis}: {cause}")
        return f'<a href="#{places[cause]}" title="{title}">{found[0]}</a>'

    # Axes are what stands behind "@", alone or in brackets.
    axis = r"(?<=@)\w+|(?<=@\()\w+|(?<=,)\w+(?=[^\[\]()]*\))"
    type_ = re.sub(axis, link, html.escape(value.type))
    times = f" ×{value.count}" if value.count > 1 else ""
    for_ = " for a gradient" if value.backward else ""
    what = f"{value.operation}{for_}, {size(value.bytes_per_device)} each"
    return (
        f"<div><code>{type_}</code>{times}<br><small>{what}</small></div>"
    )


def _code(text: str = "") -> str:
    """Write code."""
    return f"<code>{html.escape(text)}</code>" * bool(text)


def _heading(text: str) -> str:
    """Write what the rows below are of."""
    cell = f'<th colspan="3" scope="rowgroup">{html.escape(text)}</th>'
    return f"<tr>{cell}</tr>"


def _row(number: str, line: str, margin: str, place: str) -> str:
    """Write a row, to which links lead if it is a place."""
    name = f' id="{place}"' * bool(place)
    cells = "".join(f"<td>{x}</td>" for x in (number, line, margin))
    return f"<tr{name}>{cells}</tr>"
