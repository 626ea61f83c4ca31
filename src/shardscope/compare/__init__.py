"""What has changed between two programs or two layouts.

In come the records of both, as dictionaries of what JSON can hold, or the
files that they were saved to. Out comes a ``Difference``: lines of what
is new, gone, grown or shrunk. It knows records, not the classes that
make them.
"""
