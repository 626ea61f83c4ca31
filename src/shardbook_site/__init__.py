"""The site's Sphinx extension; README.md says what runs when."""

import os
import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.typing import ExtensionMetadata

from shardbook_site import (
    downloads,
    execution,
    explorer,
    formulas,
    links,
    pages,
    prediction,
    problems,
    search,
    shares,
)

# Where the theme's links lead to a repository, an editor and issues.
REPOSITORY = re.compile(
    r"(https://(?P<host>github|gitlab)\.com/(?P<name>[^/]+/[^/]+?))"
    r"(?:\.git)?/?"
)


def link_repository(app: Sphinx, config: Config) -> None:
    """Link to the repository, and to its notebooks, if it is known."""
    if not (found := REPOSITORY.fullmatch(config.repository)):
        return
    config.html_theme_options |= {
        "repository_url": found[1],
        "use_repository_button": True,
        "use_source_button": True,
        "use_edit_page_button": True,
        "use_issues_button": True,
    }
    if config.notebooks_branch and found["host"] == "github":
        config.html_context["colab"] = (
            "https://colab.research.google.com/github/"
            f"{found['name']}/blob/{config.notebooks_branch}"
        )


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up every module, and the kernel of the pages."""
    # The kernel there shows each DeprecationWarning, and "execution" warns
    # of what a kernel shows.
    os.environ["JUPYTER_PATH"] = str(Path(app.srcdir, "_jupyter"))
    for name in ("repository", "notebooks_branch"):
        app.add_config_value(name, "", "env", frozenset({str}))
    app.connect("config-inited", link_repository)
    for module in (
        *(execution, problems, prediction, explorer, links, downloads),
        *(pages, search, shares, formulas),
    ):
        module.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
