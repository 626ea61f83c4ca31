"""``python -m shardbook`` is the command line."""

from shardbook.reader.cli import main

main()
