"""The inputs of graded calls, so that a call in a verdict runs when pasted.

A verdict prints the call that was graded, such as
``megatron_mlp(mlp_params(16, 40, 24), normal(8, 16), mesh_of(2, 4))``, with
the line that imports these names.
"""

import inspect

from jax import P as P

from shardbook.inputs.attention_by_heads import (
    attention_params as attention_params,
)
from shardbook.inputs.average_weights import (
    assorted as assorted,
    train as train,
)
from shardbook.inputs.clip_local import (
    GRADIENT_SPECS as GRADIENT_SPECS,
    gradients as gradients,
    in_shard_map as in_shard_map,
)
from shardbook.inputs.data_parallel_step import (
    adam as adam,
    momentum as momentum,
    optimizer_on as optimizer_on,
)
from shardbook.inputs.decode_sharded import (
    int32 as int32,
    kv_cache as kv_cache,
)
from shardbook.inputs.dropout_by_rows import in_blocks as in_blocks
from shardbook.inputs.edit_kernels import new_zeros as new_zeros
from shardbook.inputs.explicit_mlp import (
    explicit as explicit,
    mlp_branches as mlp_branches,
)
from shardbook.inputs.feed_batch import (
    except_last as except_last,
    numpy_rows as numpy_rows,
    rows_of_process as rows_of_process,
)
from shardbook.inputs.fsdp_adamw import (
    LM_RULES as LM_RULES,
    clipped_adamw as clipped_adamw,
    language_model as language_model,
    next_token_loss as next_token_loss,
    residual_error as residual_error,
    residual_mlp as residual_mlp,
    tokens as tokens,
)
from shardbook.inputs.fsdp_step import (
    FSDP_SPECS as FSDP_SPECS,
    SCALED_SPECS as SCALED_SPECS,
    scaled_error as scaled_error,
    squared_error as squared_error,
)
from shardbook.inputs.init_boxed import (
    dense as dense,
    normed as normed,
    random_key as random_key,
)
from shardbook.inputs.mixed_precision_step import (
    large_and_small as large_and_small,
    mean_score as mean_score,
    mlp_error as mlp_error,
    mlp_kernels as mlp_kernels,
)
from shardbook.inputs.one_metric import spread as spread
from shardbook.inputs.optimizer_like_params import (
    adafactor as adafactor,
    from_shapes as from_shapes,
)
from shardbook.inputs.pipeline_forward import (
    marked as marked,
    marked_block as marked_block,
    unit_block as unit_block,
)
from shardbook.inputs.place_batch import numpy_batch as numpy_batch
from shardbook.inputs.place_state import (
    OVERLAPPING as OVERLAPPING,
    placed as placed,
)
from shardbook.inputs.repair_step import counting as counting
from shardbook.inputs.restore_onto import (
    checkpoint as checkpoint,
    dropout_mlp as dropout_mlp,
    linear as linear,
    too_large as too_large,
    truncated as truncated,
)
from shardbook.inputs.resume_run import (
    runs_of as runs_of,
    training as training,
)
from shardbook.inputs.ring_attention import hard_to_add as hard_to_add
from shardbook.inputs.route_to_experts import (
    EXPERT_SPECS as EXPERT_SPECS,
    expert_params as expert_params,
    padded_tokens as padded_tokens,
)
from shardbook.inputs.scan_layers import (
    STACKED_SPECS as STACKED_SPECS,
    in_jit as in_jit,
    residual_block as residual_block,
    stacked_params as stacked_params,
)
from shardbook.inputs.sequence_parallel_block import (
    BLOCK_SPECS as BLOCK_SPECS,
    block_params as block_params,
)
from shardbook.inputs.shared import (
    RULES as RULES,
    backwards as backwards,
    committed as committed,
    counted_mlp as counted_mlp,
    examples as examples,
    laid_out as laid_out,
    mesh_of as mesh_of,
    mlp as mlp,
    mlp_params as mlp_params,
    named as named,
    normal as normal,
    numpy_examples as numpy_examples,
    twice as twice,
    vision as vision,
    with_nan as with_nan,
)
from shardbook.inputs.vocab_parallel_loss import labels as labels

# All of these, but not the modules that they are in.
__all__ = sorted(
    name
    for name, value in globals().items()
    if not name.startswith("_") and not inspect.ismodule(value)
)
