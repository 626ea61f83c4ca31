"""What can be compared of a call: each function takes what was seen."""

from shardgrade.grading.measures.gradients import (
    Slopes as Slopes,
    sent_over_data as sent_over_data,
    sent_over_model as sent_over_model,
    take_gradients as take_gradients,
)
from shardgrade.grading.measures.placement import (
    argument_layouts as argument_layouts,
    describe_copies as describe_copies,
    describe_shards as describe_shards,
    note_copies as note_copies,
    result_layouts as result_layouts,
    shards as shards,
    shards_by_path as shards_by_path,
)
from shardgrade.grading.measures.programs import (
    argument_bytes as argument_bytes,
    bytes_sent as bytes_sent,
    collectives as collectives,
    count_collectives as count_collectives,
    flops as flops,
    is_spread as is_spread,
    note_runs as note_runs,
    program_bytes as program_bytes,
    programs as programs,
    quantities as quantities,
    runs_on_mesh as runs_on_mesh,
    sends_little as sends_little,
    sent_by_kind as sent_by_kind,
)
from shardgrade.grading.measures.refusals import (
    note_errors as note_errors,
    refusal as refusal,
)
from shardgrade.grading.measures.results import (
    as_list as as_list,
    class_name as class_name,
    entry_at as entry_at,
    equal_in_all as equal_in_all,
    local_slices as local_slices,
    paths as paths,
    result as result,
    types as types,
    types_by_path as types_by_path,
)
from shardgrade.grading.measures.steps import (
    step_arguments as step_arguments,
    step_collectives as step_collectives,
    step_compilations as step_compilations,
    step_kept as step_kept,
    step_results as step_results,
    step_shards as step_shards,
)
