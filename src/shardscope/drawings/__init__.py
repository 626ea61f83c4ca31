"""Pictures in SVG, and the same in text.

In come arrays, trees, layouts, collectives or reports on programs. Out
comes a ``Drawing``. ``draw.py`` chooses the picture by what it is given;
``figure.py`` is what all pictures are made with.
"""
