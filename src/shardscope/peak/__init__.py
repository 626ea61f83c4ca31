"""Which arrays a device holds when its memory is fullest.

In comes a parsed program. Out comes a ``Peak``, a table of arrays that
adds up to what XLA reports. XLA tells no more than the sum for all chips,
so the arrays follow from when each is last used (``liveness.py``), which
of them have to share memory (``inplace.py``), and how they are packed
(``buffers.py``).
"""
