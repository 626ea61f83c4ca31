"""The site's Sphinx extension; README.md says what runs when."""

import gc
import os
import re
import warnings
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.typing import ExtensionMetadata

from shardbook_site import (
    downloads,
    execution,
    explorer,
    links,
    pages,
    prediction,
    problems,
)

# Where the theme's links lead to a repository, an editor and issues.
REPOSITORY = re.compile(
    r"(https://(?:github|gitlab)\.com/[^/]+/[^/]+?)(?:\.git)?/?"
)


def link_repository(app: Sphinx, config: Config) -> None:
    """Link to the repository that Read the Docs names, if it names one."""
    address = os.environ.get("READTHEDOCS_GIT_CLONE_URL", "")
    if found := REPOSITORY.fullmatch(address):
        config.html_theme_options |= {
            "repository_url": found[1],
            "repository_branch": os.environ["READTHEDOCS_GIT_IDENTIFIER"],
            "use_repository_button": True,
            "use_source_button": True,
            "use_edit_page_button": True,
            "use_issues_button": True,
        }


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up every module, and the process that builds."""
    # A build keeps what it allocates: collection would only cost time.
    gc.disable()
    for kind in (DeprecationWarning, PendingDeprecationWarning):
        warnings.filterwarnings(
            "error", category=kind, module=rf"{__name__}\b"
        )
    # The kernel there shows each DeprecationWarning, and "execution" warns
    # of what a kernel shows.
    os.environ["JUPYTER_PATH"] = str(Path(app.srcdir, "_jupyter"))
    app.connect("config-inited", link_repository)
    execution.setup(app)
    problems.setup(app)
    prediction.setup(app)
    explorer.setup(app)
    links.setup(app)
    downloads.setup(app)
    pages.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
