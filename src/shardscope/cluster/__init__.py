"""Several processes on one machine, joined by ``jax.distributed``.

In comes a function or a script. Out comes what it returned in each
process, or one error that names the process that failed and its line.
README.md tells what each file does.
"""
