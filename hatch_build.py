"""What an index shows of README, where only full addresses lead on."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:)([^)]*)\)")


class Readme(MetadataHookInterface):
    """The README with its links into the repository as full addresses.

    As long as pyproject.toml names no Repository, their words stay, and
    those of pictures.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        """Give the README as the description of the package."""
        repository = metadata.get("urls", {}).get("Repository", "")
        version = metadata["version"]

        def full(link: re.Match[str]) -> str:
            picture, words, target = link.groups()
            if not repository:
                return words
            path = f"README.md{target}" if target[0] == "#" else target
            kind = "raw" if picture else "blob"
            address = f"{repository}/{kind}/v{version}/{path}"
            return f"{picture}[{words}]({address})"

        text = Path(self.root, "README.md").read_text("utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": LINK.sub(full, text),
        }
