"""The search finds pages, without a network."""

import re
from urllib.parse import quote, urlencode

from messages import QUOTED
from playwright.sync_api import Locator, Page, expect

FIELD = ".bd-search-container input"


def test_a_word_leads_to_its_page(page: Page) -> None:
    """From any page: by a key, a word, and the link that it finds."""
    page.goto("reference/index.html")
    page.keyboard.press("Control+k")
    expect(page.locator(FIELD)).to_be_focused()
    page.keyboard.type("with_partitioning")
    page.wait_for_url("**/search.html?q=with_partitioning")
    found = page.locator("ul.search a[href*=partitioned_kernel]")
    expect(found.first).to_be_visible()
    found.first.click()

    expect(page.locator("h1:visible")).to_contain_text("Annotate a kernel")


# As a terminal shows them, with names, sizes and line breaks of readers.
PASTED = {
    **QUOTED,
    "Traceback (most recent call last):\n"
    '  File "/home/me/train.py", line 93, in <module>\n'
    "    state = step(state, batch)\n"
    "ValueError: Received incompatible devices for jitted computation. "
    "Got argument kernels['qkv'] of my_step with shape float32[4711] and "
    "device ids [0, 1] on platform CPU": "Received incompatible devices",
    "ValueError: Number of devices 8 must be >= the product\n    of "
    "mesh_shape (4, 4)": "the product of mesh_shape",
    "ValueError: Sharding spec (\u2018dp\u2019,) implies that array axis 0 "
    "is partitioned 8 times, but does not evenly divide the dimension "
    "size 12. Got shape: (12, 130048)": "implies that array axis",
    "ShardingTypeError: Contracting dimensions are sharded and it is "
    "ambiguous how the output should be sharded. Got lhs_contracting_spec="
    "('tp',) and rhs_contracting_spec=('tp',)": "Contracting dimensions",
    "ForbiddenCollectiveError: Collective across axis 'x' is forbidden by "
    "`no_collectives`, but `psum` acts on axis 'x'.": "is forbidden by",
    "ValueError: Resource axis: modle of P('modle',) is not found in mesh: "
    "('dp', 'tp').": "is not found in mesh",
    "RuntimeError: Array has been deleted with shape=float32[64,256].": (
        "Array has been deleted"
    ),
    "JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating "
    "4503599627370496 bytes.": "Out of memory",
    "TypeError: scan body function carry input and carry output must have "
    "equal types, but they differ:\n\nThe input carry c has type int32[] "
    "but the corresponding output carry component has type "
    "int32[]{V:dp}, so the manual axis types do not match.": (
        "manual axis types"
    ),
    "TraceContextError: Cannot mutate Param from a different trace level": (
        "different trace level"
    ),
}
# What people type, and where it leads: the end of an address.
WORDS = {
    # The field.
    "rank": "glossary.html#term-rank",
    "twin": "glossary.html#term-twin",
    "OOM": "silent_failures/memory.html",
    "ZeRO": "fsdp_step.html",
    "DTensor": "from_elsewhere.html",
    "tensor parallel": "megatron_mlp.html",
    "remat": "scan_layers.html",
    "gradient checkpointing": "scan_layers.html",
    "FSDP": "fsdp_step.html",
    "checkpoint": "restore_onto.html",
    "GPUs on two nodes": "past_one_machine.html",
    "multihost": "past_one_machine.html",
    "mixed precision": "mixed_precision_step.html",
    "DDP": "data_parallel_step.html",
    "EMA": "average_weights.html",
    "LoRA": "guides/adapt_recipe.html",
    "Megatron": "megatron_mlp.html",
    "CUDA out of memory": "#resource-exhausted-out-of-memory",
    "torchrun": "past_one_machine.html",
    "autocast": "mixed_precision_step.html",
    "GradScaler": "mixed_precision_step.html",
    "clip_grad_norm_": "from_elsewhere.html#from-pytorch",
    "jax version": "versions.html",
    "preallocation": "errors/xla.html",
    "golden file": "guides/ci.html",
    "snapshot": "guides/ci.html",
    # Names of the API.
    "with_partitioning": "partitioned_kernel_shape.html",
    "nnx.update": "split_merge_round_trip.html#on-eight-devices",
    "no_collectives": "explicit_axes.html#is-forbidden-by-no-collectives",
    "shardscope.layout": "tools.html#shardscope.layout",
    "fsdp_step": "problems/fsdp_step.html",
    # Questions, and a name of the reader's own.
    "how do I shard my model": "recipe.html",
    "with_partitioning my_flurb_step": "partitioned_kernel_shape.html",
    "unhashable type: 'BatchStat'": "#specs-of-another-form",
}
# Questions of the trade, and the place that answers each of them.
QUESTIONS = {
    "gradient accumulation": "accumulate_gradients.html",
    "zero optimizer sharding": "optimizer_like_params.html",
    "out of memory": "#resource-exhausted-out-of-memory",
    "tensor parallel mlp": "megatron_mlp.html",
    "bfloat16 training": "mixed_precision_step.html",
    "two hosts": "past_one_machine.html",
    "multi-head attention sharding": "place_state.html",
    "is my array replicated": "who_holds.html",
    "checkpoint on another mesh": "restore_onto.html",
    "how many bytes does fsdp send": "#bytes-that-a-device-sends",
}
# What newcomers ask, and the place among the first three.
ASKED = {
    "loss differs between 1 device and 8": (
        "#the-loss-on-one-device-and-on-eight-differs"
    ),
    "my loss differs between 1 device and 8; is that normal or a bug?": (
        "#the-loss-on-one-device-and-on-eight-differs"
    ),
    "loss not the same on 1 GPU and 8 GPUs": (
        "#the-loss-on-one-device-and-on-eight-differs"
    ),
    "bitwise reproducible number of devices": (
        "#the-loss-on-one-device-and-on-eight-differs"
    ),
    "shard_map vs with_sharding_constraint": "axis_types.html",
    "shard_map or with_sharding_constraint": "axis_types.html",
    "shard_map vs jit": "axis_types.html",
    "VocabParallelEmbedding": "vocab_parallel_loss.html",
    "vocab_parallel_cross_entropy": "vocab_parallel_loss.html",
    # By their parts, because no page has them as written.
    "VocabParallelLogits": "vocab_parallel_loss.html",
    "vocab_parallel_embeddings_loss": "vocab_parallel_loss.html",
    "ColumnParallelLinear": "#zero-1-zero-2-zero-3-and-megatron",
    "ZeRO-1": "data_parallel_step.html",
    "DeepSpeed stage 1": "#moments-that-are-sharded",
    "use_distributed_optimizer": "#moments-that-are-sharded",
    "memory does not go down with more GPUs": (
        "#memory-is-the-same-on-one-device-and-on-eight"
    ),
    "second step recompiles": "#step-two-compiles-again",
    "compiled twice": "#step-two-compiles-again",
    "initialise model sharded OOM": "init_sharded.html",
    "jax.distributed.initialize hangs": (
        "#coordinationservice-registertask"
    ),
    "memory 7B model Adam per GPU": "fsdp_step.html#why-this-matters",
    "7B Adam 8 GPUs": "fsdp_step.html#why-this-matters",
    "ZeRO-3 equivalent": "fsdp_step.html",
    "should be divisible by": "#implies-that-array-axis",
    "recompiles every step": "#every-call-compiles-again",
    "DeepSpeed ZeRO-3": "fsdp_step.html",
    "ZeRO-2": "#zero-1-zero-2-zero-3-and-megatron",
    "PyTorch FSDP equivalent in JAX": "from_elsewhere.html",
    "SequenceParallel": "sequence_parallel_block.html",
    "KV cache": "decode_sharded.html",
    "preemption": "resume_run.html",
    "MoE": "route_to_experts.html",
    "pipeline parallelism": "pipeline_forward.html",
    "ring attention": "ring_attention.html",
    "context parallelism": "ring_attention.html",
    "expert parallelism": "route_to_experts.html",
    "FSDP or tensor parallelism": "choose_layout.html",
    "DDP vs FSDP": "choose_layout.html",
    "does my model fit": "choose_layout.html",
    "do I need psum in jit": "#under-jit-you-write-no-collective",
    "global or per-device batch": (
        "#is-the-batch-size-global-or-per-device"
    ),
    "is BatchNorm synchronized": "#convolutions-batchnorm-and-dropout",
    "LoRA sharding": "#lora-or-another-frozen-base",
    "frozen base": "#lora-or-another-frozen-base",
    "LoRAParam": "#lora-or-another-frozen-base",
    "with_logical_constraint": "#with-logical-constraint-does-nothing",
    "logical_axis_rules": "#with-logical-constraint-does-nothing",
    "device_put over several hosts": "#device-put-over-several-hosts",
    "device_put multi-host out of memory": (
        "#device-put-over-several-hosts"
    ),
    # After what answers, what no page explains.
    "multi-host data loader global batch": "feed_batch.html",
}
# What no page explains, and the host of one that does.
UNTAUGHT = {
    "inference": "jax-ml.github.io",
    "serving": "jax-ml.github.io",
    "my loss is NaN": "docs.jax.dev",
    "NCCL hang": "docs.nvidia.com",
    "quantisation": "qwix.readthedocs.io",
    "1F1B": "jax-ml.github.io",
    "splash attention": "docs.jax.dev",
    "quantize": "qwix.readthedocs.io",
    "data loader": "google-grain.readthedocs.io",
    "DataLoader": "google-grain.readthedocs.io",
    "MFU": "jax-ml.github.io",
    "NCCL timeout": "docs.nvidia.com",
    "profile my step": "docs.jax.dev",
}


def found(page: Page, words: str) -> Locator:
    """Follow a link to a search, and give the links of what is found."""
    page.goto(f"search.html?q={quote(words)}")
    expect(page.locator(".search-summary")).not_to_be_empty()
    return page.locator("ul.search a")


def typed(page: Page, words: str) -> Locator:
    """Type into the field, and give the links of what is found."""
    if "search.html" not in page.url:
        page.goto("search.html")
    page.locator(FIELD).fill(words)
    address = re.escape(urlencode({"q": words}))
    expect(page).to_have_url(re.compile(rf"\?{address}$"))
    return page.locator("ul.search a")


def test_a_pasted_message_leads_to_its_section(page: Page) -> None:
    """With its own names and numbers, to the heading, and first of all."""
    for message, heading in PASTED.items():
        first = found(page, message).first
        expect(first).to_contain_text(heading)
        expect(first).to_have_attribute(
            "href", re.compile("guides/errors/.*html#.")
        )
    first.click()
    expect(page.locator(":target")).to_be_in_viewport()


def test_what_people_type_leads_to_its_page(page: Page) -> None:
    """Words of the field, names of the API, and questions."""
    for words, address in WORDS.items():
        expect(typed(page, words).first).to_have_attribute(
            "href", re.compile(f"{re.escape(address)}$")
        )


def test_the_best_page_is_among_the_first_two(page: Page) -> None:
    """It comes before the glossary, which says what the words mean."""
    for words, address in QUESTIONS.items():
        typed(page, words)
        best = f"ul.search li:nth-child(-n + 2) > a[href$='{address}']"
        expect(page.locator(best).first, words).to_be_attached()
    expect(typed(page, "FSDP").nth(1)).to_have_attribute(
        "href", "glossary.html#term-FSDP"
    )


def test_questions_of_newcomers_are_answered(page: Page) -> None:
    """Pages that answer come before what no page explains."""
    wrong = []
    for words, address in ASKED.items():
        expect(typed(page, words).first).to_be_visible()
        best = f"ul.search li:nth-child(-n + 3) > a[href$='{address}']"
        if not page.locator(best).count():
            links = page.locator("ul.search li > a:first-child").all()
            first = [link.get_attribute("href") for link in links[:5]]
            wrong.append((words, address, first))
    assert not wrong
    line = page.locator(".search-elsewhere")
    expect(line).to_contain_text("Not in this book")
    expect(page.locator("ul.search > li").last).to_contain_text(
        "Not in this book"
    )


def test_what_no_page_teaches_leads_elsewhere(page: Page) -> None:
    """A line of the list says so, with its link, at once."""
    for words, host in UNTAUGHT.items():
        typed(page, words)
        line = page.locator(".search-elsewhere")
        expect(line).to_contain_text("Not in this book")
        expect(line.locator(f"a[href*='//{host}/']").first).to_be_visible()
    line.locator("a[href*=not_here]").click()
    expect(page.locator(":target")).to_be_in_viewport()
    # A decoder, in a message that the book explains, is no decoding.
    message = (
        "Received incompatible devices for jitted computation: decoder"
    )
    expect(found(page, message).first).to_be_visible()
    expect(page.locator(".search-elsewhere")).to_have_count(0)


def test_a_word_of_no_page_is_named(page: Page) -> None:
    """The other words are offered alone."""
    expect(typed(page, "flurbs parallelism")).to_have_count(0)
    said = page.locator(".search-summary")
    expect(said).to_contain_text("No page has \u201cflurbs\u201d")
    nothing = page.locator(".search-nothing")
    expect(nothing.locator("a[href*=not_here]")).to_be_visible()
    expect(nothing.locator("a[href*=glossary]")).to_be_visible()
    said.get_by_text("parallelism").click()
    expect(page.locator("ul.search li").first).to_be_visible()


def test_a_result_shows_the_words_of_its_page(page: Page) -> None:
    """The sentence that was looked for, not the menu above it."""
    found(page, "low-rank matrices")
    text = page.locator("ul.search p.context").first

    expect(text).to_contain_text("the two low-rank matrices of a LoRA")
    assert text.locator("mark").all_inner_texts() == [
        "low",
        "rank",
        "matrices",
    ]


def test_results_come_while_one_types(page: Page) -> None:
    """They can be reached by keyboard, and one can come back to them."""
    page.goto("search.html")
    expect(page.locator(FIELD)).to_be_focused()
    page.keyboard.type("gradient accumul")
    first = page.locator("ul.search a").first
    expect(first).to_contain_text("Accumulate gradients")
    expect(first.locator("mark").first).to_have_text("Accumulate")
    expect(page.get_by_role("status").first).to_contain_text(
        re.compile(r"Sections found: \d+")
    )
    for key in ("ArrowDown", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    expect(first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("h1:visible")).to_contain_text("Accumulate")
    page.go_back()

    expect(page.locator(FIELD)).to_have_value("gradient accumul")
    expect(first).to_contain_text("Accumulate gradients")
    page.locator(FIELD).clear()
    expect(page.locator("ul.search li")).to_have_count(0)
    expect(page).to_have_url(re.compile("search.html$"))


def test_without_scripts_there_is_no_search(scriptless: Page) -> None:
    """The page says so, and leads on."""
    scriptless.goto("search.html")
    said = scriptless.locator("noscript p")
    expect(said).to_contain_text("needs JavaScript")
    said.locator("a[href*=glossary]").click()
    expect(scriptless.locator("h1").first).to_contain_text("Glossary")
