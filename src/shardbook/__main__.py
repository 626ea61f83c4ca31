"""The command line: ``shardbook``, or ``python -m shardbook``."""

import sys

from shardbook import what_to_install

try:
    from shardbook.reader.cli import main as main
except ModuleNotFoundError as error:
    sys.exit(str(what_to_install("the command shardbook", error)))

if __name__ == "__main__":
    main()
