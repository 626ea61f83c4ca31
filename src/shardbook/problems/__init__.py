"""The solutions of the problems, each a module that runs on its own."""

# The map: the order in which a reader should take the problems.
NAMES = (
    "state_to_sharded_layout",
    "partitioned_kernel_shape",
    "split_merge_round_trip",
    "state_zero_kernel",
    "tree_mode_shard_map",
    "megatron_mlp",
)
