"""Links to the repository, where the build knows it, and no others."""

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "docs" / "_extensions" / "repository.py"
SPEC = importlib.util.spec_from_file_location("repository", PATH)
repository = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(repository)


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/someone/shardbook",
        "https://github.com/someone/shardbook.git",
        "https://github.com/someone/shardbook/",
    ],
)
def test_a_known_repository(address: str) -> None:
    """The address is given without what would break the links."""
    options = repository.repository_options(
        {
            "READTHEDOCS_GIT_CLONE_URL": address,
            "READTHEDOCS_GIT_IDENTIFIER": "v1",
        }
    )

    assert (
        options["repository_url"] == "https://github.com/someone/shardbook"
    )
    assert options["repository_provider"] == "github"
    assert options["repository_branch"] == "v1"
    assert options["path_to_docs"] == "docs"


@pytest.mark.parametrize(
    "address",
    [
        "",
        "git@github.com:someone/shardbook.git",
        "https://example.org/someone/shardbook",
        "https://github.com/someone",
        "https://user:secret@github.com/someone/shardbook",
    ],
)
def test_an_unknown_repository(address: str) -> None:
    """The theme can't link to it, so there are no links."""
    environment = {"READTHEDOCS_GIT_CLONE_URL": address}

    assert repository.repository_options(environment) == {}


def test_no_repository() -> None:
    """A build on a laptop has no links."""
    assert repository.repository_options({}) == {}
