"""The inputs of graded calls, so that a call in a verdict runs when pasted.

A verdict prints the call that was graded, such as
``megatron_mlp(mlp_params(16, 40, 24), normal(8, 16), mesh_of(2, 4))``, with
the line that imports these names.
"""

from jax.sharding import PartitionSpec as P

from shardbook.inputs.attention_by_heads import attention_params
from shardbook.inputs.average_weights import assorted, train
from shardbook.inputs.clip_local import (
    GRADIENT_SPECS,
    gradients,
    in_shard_map,
)
from shardbook.inputs.data_parallel_step import adam, momentum, optimizer_on
from shardbook.inputs.decode_sharded import int32, kv_cache
from shardbook.inputs.dropout_by_rows import in_blocks
from shardbook.inputs.edit_kernels import new_zeros
from shardbook.inputs.explicit_mlp import explicit, mlp_branches
from shardbook.inputs.feed_batch import (
    except_last,
    numpy_rows,
    rows_of_process,
)
from shardbook.inputs.fsdp_adamw import (
    LM_RULES,
    clipped_adamw,
    language_model,
    next_token_loss,
    residual_error,
    residual_mlp,
    tokens,
)
from shardbook.inputs.fsdp_step import (
    FSDP_SPECS,
    SCALED_SPECS,
    scaled_error,
    squared_error,
)
from shardbook.inputs.init_boxed import dense, normed, random_key
from shardbook.inputs.mixed_precision_step import (
    large_and_small,
    mean_score,
    mlp_error,
    mlp_kernels,
)
from shardbook.inputs.one_metric import spread
from shardbook.inputs.optimizer_like_params import adafactor, from_shapes
from shardbook.inputs.pipeline_forward import (
    marked,
    marked_block,
    unit_block,
)
from shardbook.inputs.place_batch import numpy_batch
from shardbook.inputs.place_state import OVERLAPPING, placed
from shardbook.inputs.repair_step import counting
from shardbook.inputs.restore_onto import (
    checkpoint,
    dropout_mlp,
    linear,
    too_large,
    truncated,
)
from shardbook.inputs.resume_run import runs_of, training
from shardbook.inputs.ring_attention import hard_to_add
from shardbook.inputs.route_to_experts import (
    EXPERT_SPECS,
    expert_params,
    padded_tokens,
)
from shardbook.inputs.scan_layers import (
    STACKED_SPECS,
    in_jit,
    residual_block,
    stacked_params,
)
from shardbook.inputs.sequence_parallel_block import (
    BLOCK_SPECS,
    block_params,
)
from shardbook.inputs.shared import (
    RULES,
    backwards,
    committed,
    counted_mlp,
    examples,
    laid_out,
    mesh_of,
    mlp,
    mlp_params,
    named,
    normal,
    numpy_examples,
    twice,
    vision,
    with_nan,
)
from shardbook.inputs.vocab_parallel_loss import labels

__all__ = [
    "BLOCK_SPECS",
    "EXPERT_SPECS",
    "FSDP_SPECS",
    "GRADIENT_SPECS",
    "LM_RULES",
    "OVERLAPPING",
    "RULES",
    "SCALED_SPECS",
    "STACKED_SPECS",
    "P",
    "adafactor",
    "adam",
    "assorted",
    "attention_params",
    "backwards",
    "block_params",
    "checkpoint",
    "clipped_adamw",
    "committed",
    "counted_mlp",
    "counting",
    "dense",
    "dropout_mlp",
    "examples",
    "except_last",
    "expert_params",
    "explicit",
    "from_shapes",
    "gradients",
    "hard_to_add",
    "in_blocks",
    "in_jit",
    "in_shard_map",
    "int32",
    "kv_cache",
    "labels",
    "laid_out",
    "language_model",
    "large_and_small",
    "linear",
    "marked",
    "marked_block",
    "mean_score",
    "mesh_of",
    "mlp",
    "mlp_branches",
    "mlp_error",
    "mlp_kernels",
    "mlp_params",
    "momentum",
    "named",
    "new_zeros",
    "next_token_loss",
    "normal",
    "normed",
    "numpy_batch",
    "numpy_examples",
    "numpy_rows",
    "optimizer_on",
    "padded_tokens",
    "placed",
    "random_key",
    "residual_block",
    "residual_error",
    "residual_mlp",
    "rows_of_process",
    "runs_of",
    "scaled_error",
    "spread",
    "squared_error",
    "stacked_params",
    "tokens",
    "too_large",
    "train",
    "training",
    "truncated",
    "twice",
    "unit_block",
    "vision",
    "with_nan",
]
