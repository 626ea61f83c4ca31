"""The pass over the finished pages: one style sheet."""

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
