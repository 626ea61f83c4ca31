"""The solutions of the problems, each a module that runs on its own."""

# The map: the order in which a reader should take the problems.
NAMES = (
    "split_merge_round_trip",
    "state_zero_kernel",
    "state_to_sharded_layout",
    "partitioned_kernel_shape",
    "tree_mode_shard_map",
    "megatron_mlp",
)
