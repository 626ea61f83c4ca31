"""How each array of a tree is sharded, as a table.

In comes a tree. Out comes a ``TreeLayout``, which prints its arrays with
their bytes and what looks wrong (``findings.py``), and which can be saved
and expected in a test.
"""
