"""``python -m shardbook`` is the command line."""

from shardbook.cli import main

main()
