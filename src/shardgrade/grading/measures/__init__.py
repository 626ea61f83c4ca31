"""What can be compared of a call: each function takes what was seen."""

from shardgrade.grading.measures.placement import (
    argument_layouts as argument_layouts,
    copies as copies,
    describe_shards as describe_shards,
    guarded_copies as guarded_copies,
    layouts as layouts,
    shards as shards,
)
from shardgrade.grading.measures.programs import (
    argument_bytes as argument_bytes,
    bytes_sent as bytes_sent,
    collectives as collectives,
    counted as counted,
    flops as flops,
    on_mesh as on_mesh,
    program_bytes as program_bytes,
    programs as programs,
    runs_noted as runs_noted,
    sends_little as sends_little,
    sent as sent,
)
from shardgrade.grading.measures.refusals import (
    errors as errors,
    refusal as refusal,
)
from shardgrade.grading.measures.results import (
    as_list as as_list,
    entry as entry,
    held as held,
    kind as kind,
    paths as paths,
    result as result,
    same_in_all as same_in_all,
    types as types,
)
from shardgrade.grading.measures.steps import (
    step_arguments as step_arguments,
    step_collectives as step_collectives,
    step_compilations as step_compilations,
    step_kept as step_kept,
    step_results as step_results,
    step_shards as step_shards,
)
