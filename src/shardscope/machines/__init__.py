"""Machines that are not here, to compile for.

In comes a name such as ``"v5e:2x4"``. Out come its devices, a mesh of
them, and abstract arguments on this mesh. The memory of each kind of chip
is here, too.
"""
