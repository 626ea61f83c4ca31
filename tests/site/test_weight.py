"""The style sheet keeps what the book uses, and drops the rest."""

import sys
from pathlib import Path

import pytest

EXTENSIONS = Path(__file__).parents[2] / "docs" / "_extensions"


@pytest.fixture
def weight(monkeypatch: pytest.MonkeyPatch):
    """Import the extension, as a build does."""
    monkeypatch.syspath_prepend(str(EXTENSIONS))
    import weight

    yield weight
    del sys.modules["weight"]


@pytest.mark.parametrize(
    "rule",
    [
        "p{color:red}",
        ".here{color:red}",
        ".here:not(.gone,:is(.gone)){color:red}",
        ".gone,.here{color:red}",
        "@media print{.here{color:red}}",
        "@keyframes k{from{top:0}50%{top:1px}}",
        ':root{--icon:url("data:image/svg+xml;{.gone}")}',
        ".here{.here &{color:red}}",
        "/*! licence */",
    ],
)
def test_what_may_apply_is_kept(weight, rule: str) -> None:
    """As it is written."""
    assert weight.used_rules(
        iter(weight.TOKEN.findall(rule)), {"here"}
    ) == (rule)


@pytest.mark.parametrize(
    "rule",
    [
        ".gone{color:red}",
        ".here .gone{color:red}",
        "#gone.here{color:red}",
        "@media print{.gone{color:red}}",
        "@font-face{font-family:F;src:url(f.woff2)}",
        "/* why */",
    ],
)
def test_what_cannot_apply_is_dropped(weight, rule: str) -> None:
    """With the words around it that asked for it."""
    assert weight.used_rules(
        iter(weight.TOKEN.findall(rule)), {"here"}
    ) == ("")


def test_a_sheet_is_read_with_what_it_imports(
    weight, tmp_path: Path
) -> None:
    """Without the letters of an icon font, which is not sent."""
    (tmp_path / "styles").mkdir()
    (tmp_path / "basic.css").write_text(".a{top:0}", "utf-8")
    sheet = tmp_path / "styles" / "theme.css"
    sheet.write_text(
        '@charset "utf-8";@import "../basic.css";'
        '.b{content:"\\f0c9 \uf0f3 \\201c"}',
        "utf-8",
    )

    assert weight.read_style(sheet) == ('.a{top:0}.b{content:"  \\201c"}')


def bundled(
    weight,
    folder: Path,
    pages: dict[str, str],
    earlier: dict[str, str] | None = None,
) -> str:
    """Join the pages' scripts; give what was joined."""
    weight.bundle(
        folder,
        pages,
        earlier or {},
        weight.SCRIPT,
        "book.js",
        lambda names, before: "+".join(names),
        '<script src="{}"></script>',
    )
    return (folder / "book.js").read_text()


def test_what_all_pages_ask_for_is_joined(weight, tmp_path: Path) -> None:
    """In its order; what some ask for is left to them."""
    pages = {
        "a.html": (
            '<script src="1.js"></script><script src="2.js"></script>'
        ),
        "b/c.html": (
            '<script src="../1.js?v=1"></script>'
            '<script src="own.js"></script>'
            '<script src="../2.js"></script>'
        ),
    }

    assert bundled(weight, tmp_path, pages) == "1.js+2.js"
    assert weight.SCRIPT.findall(pages["a.html"]) == ["book.js"]
    assert weight.SCRIPT.findall(pages["b/c.html"]) == [
        "../book.js",
        "own.js",
    ]


def test_a_page_that_is_written_again(weight, tmp_path: Path) -> None:
    """While one writes, the pages that stay as they are follow."""
    pages = {"a.html": '<script src="1.js"></script>'}
    earlier = {"b.html": '<script src="book.js?v=old"></script>'}

    assert bundled(weight, tmp_path, pages, earlier) == "1.js"
    assert pages["a.html"] == earlier["b.html"]
