"""The pass over the finished pages: fixes, and one style sheet."""

from pathlib import Path

import pytest
import tinycss2

from shardbook_site import pages

KEPT = """
p{color:red}
.here{color:red}
.here:not(.gone,:is(.gone)){color:red}
.gone,.here{color:red}
:is(.gone,p){color:red}
@media print{.here{color:red}}
@keyframes k{from{top:0}50%{top:1px}}
:root{--icon:url("data:image/svg+xml;{.gone}")}
.here{.here &{color:red}}
/*! license */
"""
DROPPED = """
.gone{color:red}
.here .gone{color:red}
#gone.here{color:red}
@media print{.gone{color:red}}
@font-face{font-family:F;src:url(f.woff2)}
@charset "utf-8";
/* why */
"""


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        *((rule, rule) for rule in KEPT.strip().split("\n")),
        *((rule, "") for rule in DROPPED.strip().split("\n")),
    ],
)
def test_rules_that_cannot_apply_are_dropped(rule: str, kept: str) -> None:
    """used() keeps a rule whose classes and ids are on some page."""
    rules = tinycss2.parse_stylesheet(rule)

    assert "".join(pages.used(rules, {"here"})) == kept


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
    first, second = book.values()

    assert (tmp_path / "book.css").read_text() == '.a{content:""}.c{top:0}'
    assert first.count("<link") == second.count("<link") == 1
    assert 'href="_static/book.css?v=' in first
    assert 'href="../_static/book.css?v=' in second
