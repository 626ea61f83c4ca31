"""The text of a compiled program, in HLO.

In comes the text that XLA prints for a program. Out come its instructions
(``text.py``), how often a call runs each (``runs.py``), the argument that
a value is a part of (``operands.py``), and the lines of code that it comes
from (``sources.py``). It knows neither JAX nor a mesh.
"""
