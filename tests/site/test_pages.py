"""The pass over the finished pages: fixes, and one style sheet."""

from pathlib import Path

import pytest
import tinycss2

from shardbook_site import pages


def used(css: str) -> str:
    """Return what is left of a style sheet for a page with "here"."""
    return "".join(pages.used(tinycss2.parse_stylesheet(css), {"here"}))


@pytest.mark.parametrize(
    "rule",
    [
        "p{color:red}",
        ".here{color:red}",
        ".here:not(.gone,:is(.gone)){color:red}",
        ".gone,.here{color:red}",
        ":is(.gone,p){color:red}",
        "@media print{.here{color:red}}",
        "@keyframes k{from{top:0}50%{top:1px}}",
        ':root{--icon:url("data:image/svg+xml;{.gone}")}',
        ".here{.here &{color:red}}",
        "/*! license */",
    ],
)
def test_what_may_apply_is_kept(rule: str) -> None:
    """used() keeps a rule whose classes and ids are on some page."""
    assert used(rule) == rule


@pytest.mark.parametrize(
    "rule",
    [
        ".gone{color:red}",
        ".here .gone{color:red}",
        "#gone.here{color:red}",
        "@media print{.gone{color:red}}",
        "@font-face{font-family:F;src:url(f.woff2)}",
        '@charset "utf-8";',
        "/* why */",
    ],
)
def test_what_cannot_apply_is_dropped(rule: str) -> None:
    """used() drops a rule that asks for what no page has."""
    assert used(rule) == ""


def test_style_sheets_are_joined(tmp_path: Path) -> None:
    """link_one_stylesheet joins all sheets, for pages at any depth."""
    (tmp_path / "a.css").write_text('.a{content:"\\f0c9"}.b{top:0}')
    (tmp_path / "c.css").write_text(".c{top:0}")
    link = '<link rel="stylesheet" href="{}_static/{}.css?v=1" />'
    book = {
        Path("x.html"): (
            f'{link.format("", "a")}<p class="a">{link.format("", "c")}</p>'
        ),
        Path("y/z.html"): f'{link.format("../", "a")}<p class="c"></p>',
    }
    pages.link_one_stylesheet(tmp_path, book)
    style = (tmp_path / "book.css").read_text()

    assert style == '.a{content:""}.c{top:0}'
    first, second = book.values()
    assert first.count("<link") == second.count("<link") == 1
    assert 'href="_static/book.css?v=' in first
    assert 'href="../_static/book.css?v=' in second


def test_a_fix_without_a_page_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """fix_accessibility warns of a pattern that no page has."""
    said: list[tuple[str, ...]] = []
    monkeypatch.setattr(pages.LOGGER, "warning", lambda *a: said.append(a))
    monkeypatch.setattr(pages, "FIXES", {"<b>": "<i>", "<u>": "<i>"})
    book = {Path("page.html"): "<b>"}
    pages.fix_accessibility(tmp_path, book)

    assert book == {Path("page.html"): "<i>"}
    assert [words[1] for words in said] == ["<u>"]
