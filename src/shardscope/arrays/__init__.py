"""The arrays of a tree or a Module, and which device holds which slice.

In comes any pytree, with Modules of Flax in it or abstract arrays. Out
come its arrays, each with its path and with what a device holds of it.
Only ``modules.py`` knows Flax, and only if the caller has imported it.
"""
