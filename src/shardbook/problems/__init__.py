"""The problems. Each module is a solution that runs on its own."""

# The map: the order in which a reader should take the problems.
NAMES = ("state_to_sharded_layout",)
