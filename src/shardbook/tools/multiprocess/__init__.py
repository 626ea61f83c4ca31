"""Several processes on one machine, joined by ``jax.distributed``."""
