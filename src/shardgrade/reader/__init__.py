"""What readers use: the command line, check() and watch."""
