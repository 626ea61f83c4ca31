"""Instruments for anyone's code: they import nothing of the book."""
