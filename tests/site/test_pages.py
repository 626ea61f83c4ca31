"""The pass over the finished pages: fewer style sheets and scripts."""

import re
from pathlib import Path

from shardbook_site import pages


def test_style_sheets_are_joined(tmp_path: Path) -> None:
    """link_one_stylesheet joins all sheets, for pages at any depth."""
    (tmp_path / "a.css").write_text(
        '.a{content:"\\f0c9"}@font-face{src:url(f.woff2)}.b{top:0}'
    )
    (tmp_path / "c.css").write_text(".c{top:0}")
    link = '<link rel="stylesheet" href="{}_static/{}.css?v=1" />'
    book = {
        Path("x.html"): (
            f'{link.format("", "a")}<p class="a">{link.format("", "c")}</p>'
        ),
        Path("y/z.html"): f'{link.format("../", "a")}<p class="c"></p>',
    }
    pages.link_one_stylesheet(tmp_path, book)
    first, second = book.values()

    style = (tmp_path / "book.css").read_text()
    assert style == '.a{content:""}.b{top:0}\n.c{top:0}'
    assert first.count("<link") == second.count("<link") == 1
    assert 'href="_static/book.css?v=' in first
    assert 'href="../_static/book.css?v=' in second


def test_scripts_in_a_row_are_joined(tmp_path: Path) -> None:
    """join_scripts joins those that wait and those that don't apart."""
    (tmp_path / "lib").mkdir()
    for name in ("a", "b", "lib/c", "lib/d", "e"):
        (tmp_path / f"{name}.js").write_text(
            f"({name[-1]})()\n//# sourceMappingURL={name}.js.map"
        )
    script = '<script{} src="../_static/{}.js"></script>\n  '
    now = [script.format("", name) for name in ("a", "b")]
    later = [script.format(" defer", name) for name in ("lib/c", "lib/d")]
    alone = f"<p></p>{script.format('', 'e')}<script>f()</script>"
    book = {Path("y/z.html"): "".join([*now, *later, alone])}
    pages.join_scripts(tmp_path, book)
    (page,) = book.values()

    assert re.findall(r'script(.*?) src="(.*?)(?:\?v=\w+)?"', page) == [
        ("", "../_static/a.b.js"),
        (" defer", "../_static/c.d.js"),
        ("", "../_static/e.js"),
    ]
    text = (tmp_path / "a.b.js").read_text()
    assert text == "\n;\n(a)()\n\n;\n(b)()\n"
