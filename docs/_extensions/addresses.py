"""Tell others where the pages are, and what they are about."""

import re
from pathlib import Path
from posixpath import join
from typing import Any
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

import written
from docutils import nodes
from sphinx.application import Sphinx

# What a page that is served at any address must not be relative to.
RELATIVE = re.compile(
    r'(\b(?:href|src|action|data-content_root)=")(?!#|/|[a-z]+:)(?:\./)?'
)


def describe(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Give a page its description: its summary, or how it begins."""
    if not doctree:
        # The search, and the 404 page, are no one's aim.
        context["pageurl"] = None
        return
    summary = app.env.metadata[pagename].get("summary")
    if not summary:
        begin = next(doctree.findall(nodes.paragraph), nodes.paragraph())
        summary = " ".join(begin.astext().split())
    context["description"] = summary
    context["card"] = join(app.config.html_baseurl, "_static/card.png")


def sitemap(app: Sphinx) -> str:
    """List the pages, by where they will be."""
    base, builder = app.config.html_baseurl, app.builder
    addresses = (
        escape(join(base, builder.get_target_uri(name)))
        for name in sorted(app.env.found_docs)
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        + "".join(f"<url><loc>{where}</loc></url>\n" for where in addresses)
        + "</urlset>\n"
    )


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Write the map of the site, and let the 404 page stand anywhere."""
    if exception or app.builder.format != "html":
        return
    base = app.config.html_baseurl
    if base:
        Path(app.outdir, "sitemap.xml").write_text(sitemap(app), "utf-8")
    root = urlsplit(base).path or "/"
    page = written.read(app)["404.html"]
    written.write(app, {"404.html": RELATIVE.sub(rf"\1{root}", page)})


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", describe)
    # After "weight", which follows the links to style sheets and scripts.
    app.connect("build-finished", finish, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
