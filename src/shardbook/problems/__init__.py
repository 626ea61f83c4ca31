"""The solutions of the problems, each a module that runs on its own."""

# The map: the order in which a reader should take the problems.
PARTS = {
    "First steps": (
        "auto_mesh",
        "shard_shape",
        "who_holds",
        "place_batch",
    ),
    "A sharded model": (
        "state_to_sharded_layout",
        "place_state",
        "partitioned_kernel_shape",
        "init_boxed",
        "init_sharded",
        "restore_onto",
    ),
    "Editing a model": (
        "split_merge_round_trip",
        "state_zero_kernel",
        "edit_kernels",
    ),
    "Training": (
        "optimizer_like_params",
        "average_weights",
        "data_parallel_step",
        "megatron_mlp",
        "tree_mode_shard_map",
        "fsdp_step",
    ),
    "Shipping a training run": (
        "accumulate_gradients",
        "clip_local",
        "scan_layers",
        "vocab_parallel_loss",
        "fsdp_adamw",
        "repair_step",
    ),
    "Past Auto and float32": (
        "explicit_mlp",
        "mixed_precision_step",
        "attention_by_heads",
        "sequence_parallel_block",
        "dropout_by_rows",
    ),
    "Several processes": (
        "feed_batch",
        "one_metric",
    ),
    "The frontier": (
        "decode_sharded",
        "resume_run",
        "pipeline_forward",
        "route_to_experts",
        "ring_attention",
    ),
}
NAMES = tuple(name for part in PARTS.values() for name in part)
