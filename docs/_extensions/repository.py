"""Link to the repository, where the build knows it."""

import re
from collections.abc import Mapping
from typing import Any

_KNOWN = re.compile(
    r"https://(?P<host>github|gitlab|bitbucket)\.(?:com|org)/"
    r"(?P<path>[^/]+/[^/]+?)(?:\.git)?/?"
)


def repository_options(environment: Mapping[str, str]) -> dict[str, Any]:
    """Give the theme's options for links to the repository.

    Read the Docs names the repository in the environment. Anywhere else,
    and for hosts that the theme can't link to, there are no links.
    """
    address = environment.get("READTHEDOCS_GIT_CLONE_URL", "")
    if not (known := _KNOWN.fullmatch(address)):
        return {}
    return {
        "repository_url": address.removesuffix("/").removesuffix(".git"),
        "repository_provider": known["host"],
        "repository_branch": environment.get(
            "READTHEDOCS_GIT_IDENTIFIER", "main"
        ),
        "path_to_docs": "docs",
        "use_repository_button": True,
        "use_source_button": True,
        "use_edit_page_button": True,
        "use_issues_button": known["host"] != "bitbucket",
    }
