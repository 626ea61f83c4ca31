"""The solutions do not need eight devices."""

import subprocess
import sys
from pathlib import Path

import pytest

from shardbook.problems import NAMES


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_the_problems_pass_on_fewer_devices(devices: int) -> None:
    """Each problem's own tests pass on one, two and four."""
    folder = Path(__file__).parent
    files = [str(folder / f"test_{name}.py") for name in NAMES]
    command = (sys.executable, "-m", "pytest", "-q", f"--devices={devices}")
    result = subprocess.run(
        (*command, *files),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert result.returncode == 0, result.stdout
