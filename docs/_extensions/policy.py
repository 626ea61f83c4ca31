"""Let a page use nothing but what the site brings.

A content security policy in each page: the browser then refuses requests to
other hosts, and scripts that were not there when the page was built.
"""

import re
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import unescape

import written
from sphinx.application import Sphinx

INLINE = re.compile(
    r"<(?P<tag>script|style)(?![^>]*\ssrc=)[^>]*>(?P<text>.*?)</(?P=tag)>",
    re.DOTALL,
)
# What the theme's button for printing does.
HANDLER = re.compile(r'<[a-z]+\b[^>]*?\son[a-z]+="(?P<text>[^"]*)"')
CHARSET = '<meta charset="utf-8" />'


def hashed(text: str) -> str:
    """Give the hash of a script or a style, as a policy has it."""
    digest = b64encode(sha256(text.encode()).digest())
    return f"'sha256-{digest.decode()}'"


def handlers(pages: Iterable[str]) -> set[str]:
    """Give the hashes of what the buttons of all pages do.

    Each page allows them: the search reads the others.
    """
    return {
        hashed(unescape(found["text"]))
        for page in pages
        for found in HANDLER.finditer(page)
    }


def policy(page: str, handlers: set[str]) -> str:
    """Say what a page may use, with the hashes of what stands in it."""
    hashes: dict[str, set[str]] = {"script": {*handlers}, "style": set()}
    for found in INLINE.finditer(page):
        hashes[found["tag"]].add(hashed(found["text"]))
    if handlers:
        hashes["script"].add("'unsafe-hashes'")
    rules = {
        "default-src": ["'none'"],
        "script-src": ["'self'", *sorted(hashes["script"])],
        "style-src": ["'self'", *sorted(hashes["style"])],
        "img-src": ["'self'", "data:"],
        # The search reads the pages that it found.
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
    }
    return "; ".join(
        " ".join((rule, *allowed)) for rule, allowed in rules.items()
    )


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Put the policy first in each page that has been written."""
    if exception or app.builder.format != "html":
        return
    if not app.config.content_security_policy:
        return
    pages = written.read(app)
    earlier = written.read(app, earlier=True)
    allowed = handlers([*pages.values(), *earlier.values()])
    pages = {
        page: text.replace(
            CHARSET,
            f"{CHARSET}\n    <meta "
            'http-equiv="Content-Security-Policy" '
            f'content="{policy(text, allowed)}" />',
            1,
        )
        for page, text in pages.items()
    }
    written.write(app, pages)


def setup(app: Sphinx) -> dict[str, bool]:
    # What shows a page while it is written adds a script of its own.
    app.add_config_value("content_security_policy", True, "", bool)
    # When nothing changes any more.
    app.connect("build-finished", finish, priority=950)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
