"""Books that are built in this process, without a kernel."""

from pathlib import Path

import pytest
from building import Build, build, execute_here


@pytest.fixture(scope="module")
def build_here(
    tmp_path_factory: pytest.TempPathFactory,
) -> Build:
    """Build books of pages; the cells run in this process."""

    def build_book(
        pages: dict[str, str], **environment: str
    ) -> tuple[str, Path]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "jupyter_cache.executors.utils.executenb", execute_here
            )
            patch.setenv("JUPYTER_PATH", "")
            for name, value in environment.items():
                patch.setenv(name, value)
            return build(tmp_path_factory.mktemp("book"), pages)

    return build_book
