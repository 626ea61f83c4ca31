"""The command line: ``shardbook``, or ``python -m shardgrade``."""

import sys

from shardscope.lazy import what_to_install

try:
    from shardgrade.reader.cli import main as main
except ModuleNotFoundError as error:
    sys.exit(str(what_to_install("the command shardbook", error)))

if __name__ == "__main__":
    main()
