"""Folders for the files of inputs."""

import atexit
import shutil
import tempfile


def temporary_folder() -> str:
    """Return a new folder that is removed at the end of the program."""
    folder = tempfile.mkdtemp(prefix="shardbook-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
