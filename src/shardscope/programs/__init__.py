"""What a compiled call does, without running it.

In comes a function with its arguments. Out comes a ``Program``
(``report.py``): its collectives, memory, arguments and FLOPs, printed as
tables, which can be saved, compared, and held to budgets in a test.
"""
