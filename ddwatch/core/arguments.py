"""Server arguments: which names may be shown with their values, and what a change between two starts means.

Server arguments hold secrets, so only the names listed here keep their values; of every other name only a
digest is kept, which tells whether it changed and nothing else.
"""

import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import NamedTuple

from ddwatch.core.records import ServerStart

Scalar = str | int | float | bool | None

VALUE_LIMIT = 1500
NAME_LIMIT = 100
COUNT_LIMIT = 1000


def listed(words: str) -> frozenset[str]:
    """The names of a list that is written as text."""
    return frozenset(words.split())


MODELS = frozenset({"model_path", "speculative_draft_model_path", "tokenizer_path", "served_model_name"})
"""Names whose value may be a path of a person's machine: only its last part is shown."""

IDENTITY = listed("""
    model_path speculative_draft_model_path tp_size dp_size ep_size pp_size dcp_size nnodes quantization
    speculative_algorithm speculative_num_draft_tokens speculative_num_steps speculative_eagle_topk
    speculative_dflash_block_size speculative_dspark_block_size speculative_ddtree_tree_budget
    speculative_ddtree_budget speculative_tree_budget speculative_block_size speculative_dflash_tree_verify
    speculative_dflash_tree_budget speculative_draft_model_quantization device
""")
"""Another value of one of these is another profile (DESIGN.md section 5.6)."""

JUDGED = listed("""
    version dtype kv_cache_dtype attention_backend decode_attention_backend prefill_attention_backend
    sampling_backend mm_attention_backend fp8_gemm_runner_backend fp4_gemm_runner_backend bf16_gemm_backend
    moe_runner_backend moe_a2a_backend mamba_backend linear_attn_backend linear_attn_decode_backend
    linear_attn_prefill_backend linear_attn_verify_backend dsa_prefill_backend dsa_decode_backend
    dsa_paged_mqa_logits_backend dsa_topk_backend dsv4_prefill_backend dsv4_attn_backend nsa_prefill_backend
    nsa_decode_backend flashmla_backend cutlass_moe enable_flashinfer_mla enable_flashmla enable_ep_moe
    enable_deepep_moe enable_flashinfer_moe enable_flashinfer_cutlass_moe enable_flashinfer_trtllm_moe
    deepep_mode deepep_v2_mode fuseep_mode boundary_reduction speculative_boundary_reduction
    mem_fraction_static max_running_requests max_queued_requests max_total_tokens max_prefill_tokens
    chunked_prefill_size prefill_max_requests prefill_decode_interval prefill_decode_interval_min_bs
    schedule_policy schedule_conservativeness retraction_policy page_size c128_page_size swa_full_tokens_ratio
    disable_hybrid_swa_memory hybrid_kvcache_ratio radix_eviction_policy disable_radix_cache
    disable_chunked_prefix_cache disable_overlap_schedule enable_overlap_schedule disable_jump_forward
    num_continuous_decode_steps scheduler_recv_interval enable_mixed_chunk enable_dynamic_chunking
    stream_interval batch_notify_size decode_log_interval context_length cuda_graph_config cuda_graph_max_bs
    cuda_graph_bs cuda_graph_backend_decode cuda_graph_backend_prefill cuda_graph_max_bs_decode
    cuda_graph_max_bs_prefill cuda_graph_bs_decode cuda_graph_bs_prefill cuda_graph_prefill_max_context
    cuda_graph_max_seq_len_prefill disable_cuda_graph disable_cuda_graph_padding disable_prefill_cuda_graph
    disable_decode_cuda_graph enable_profile_cuda_graph enable_cudagraph_gc debug_cuda_graph
    enable_piecewise_cuda_graph disable_piecewise_cuda_graph piecewise_cuda_graph_max_tokens
    piecewise_cuda_graph_tokens piecewise_cuda_graph_compiler enable_torch_compile torch_compile_max_bs
    enable_torch_compile_debug_mode torchao_config enable_nccl_nvls enable_symm_mem enable_mscclpp
    enable_torch_symm_mem disable_custom_all_reduce enable_p2p_check pre_warm_nccl enable_quant_communications
    enable_flashinfer_allreduce_fusion enforce_disable_flashinfer_allreduce_fusion
    flashinfer_allreduce_fusion_backend enable_aiter_allreduce_fusion
    disable_aiter_allreduce_fusion_in_prefill disable_aiter_allreduce_fusion_in_decode
    triton_attention_reduce_in_fp32 triton_attention_num_kv_splits triton_attention_split_tile_size
    flashinfer_mla_disable_ragged disable_flashinfer_autotune enable_fused_qk_norm_rope
    enable_fused_moe_sum_all_reduce enable_lean_attention enable_dp_attention enable_dp_lm_head
    enable_tp_lm_head_all_to_all enable_attn_tp_input_scattered enable_shared_experts_attn_tp
    enable_dense_mlp_attn_tp enable_layernorm_sp disable_attn_tp_gather attn_dp_size attn_cp_size moe_dp_size
    dwdp_size moe_dense_tp_size shared_experts_tp_size load_balance_method enable_prefill_cp
    enable_two_batch_overlap enable_single_batch_overlap tbo_token_distribution_threshold
    pp_max_micro_batch_size pp_async_batch_depth speculative_accept_threshold_single
    speculative_accept_threshold_acc speculative_use_rejection_sampling speculative_use_block_verification
    speculative_attention_mode speculative_draft_attention_backend speculative_dsa_topk_backend
    speculative_draft_kv_cache_dtype speculative_draft_window_size speculative_draft_sink_size
    speculative_moe_runner_backend speculative_moe_a2a_backend speculative_adaptive
    speculative_ngram_min_bfs_breadth speculative_ngram_max_bfs_breadth speculative_ngram_match_type
    speculative_ngram_max_trie_depth speculative_ngram_capacity speculative_ngram_max_match_window_size
    speculative_ngram_branch_length speculative_domino_candidate_pool_size enable_multi_layer_eagle
    enable_eplb eplb_algorithm ep_num_redundant_experts ep_dispatch_algorithm init_expert_location
    enable_hierarchical_cache hicache_ratio hicache_size hicache_write_policy hicache_io_backend
    hicache_mem_layout hicache_storage_backend enable_hisparse enable_double_sparsity enable_lmcache
    enable_flexkv cpu_offload_gb offload_group_size offload_num_in_group offload_prefetch_step offload_mode
    max_mamba_cache_size mamba_ssm_dtype mamba_full_memory_ratio enable_linear_replayssm disaggregation_mode
    disaggregation_transfer_backend num_reserved_decode_tokens enable_pdmux sm_group_num enable_memory_saver
    enable_unified_memory enable_deterministic_inference rl_on_policy_target enable_nan_detection
    enable_custom_logit_processor enable_return_hidden_states enable_return_routed_experts
    constrained_json_disable_any_whitespace grammar_backend enable_lora max_loras_per_batch lora_backend
    enable_prefill_delayer min_free_slots_delay numa_node gc_threshold sleep_on_idle enable_mfu_metrics
    enable_forward_pass_metrics enable_nvidia_megakernel enable_amd_monokernel enable_paged_experts
    paged_experts_num_resident disable_shared_experts_fusion enforce_shared_experts_fusion
    enable_w4a4_mxfp4_megamoe enable_tf32_matmul enable_fp32_lm_head triton_attention_backend enable_watermark
""")
"""Same profile; a difference is shown, and is what the detector should see."""

HARMLESS = listed("""
    tool_call_parser reasoning_parser served_model_name tokenizer_path tokenizer_mode tokenizer_backend
    load_format trust_remote_code skip_tokenizer_init is_embedding enable_multimodal model_impl host port
    base_gpu_id gpu_id_step node_rank log_level log_level_http log_requests log_requests_level
    log_requests_format enable_metrics enable_cache_report enable_request_time_stats_logging
    skip_server_warmup watchdog_timeout soft_watchdog_timeout tokenizer_worker_num detokenizer_worker_num
    show_time_cost export_metrics_to_file incremental_streaming_output enable_streaming_session stream_output
    sampling_defaults enable_strict_thinking strip_thinking_cache enable_trace load_snapshot_publish_interval
    weight_version enable_http2 allow_auto_truncate
""")
"""Shown, never judged: parsers, names, logging, ports."""

ALLOWED = IDENTITY | JUDGED | HARMLESS

NOISE = listed("""
    random_seed nccl_port launch_command internal_states startup_time status max_req_input_len
    max_total_num_tokens hicache_object_layout kv_events frontend forward_pass_metrics_ipc_name grpc_port
    engine_info_bootstrap_port gated_launch_port
""")
"""Differ at every start without anybody's doing, or are no arguments: neither shown nor compared."""

FORK_BUDGET = re.compile(r"speculative_\w{0,40}(?:tree_budget|ddtree_budget|block_size|max_tree_nodes)$")
FORK = re.compile(r"speculative_[a-z0-9_]{1,60}$")
"""Numbers and switches of forks' speculation are shown without being listed: they can hold no secret."""

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}$")
HUB_CACHE = re.compile(r"models--([\w.]+(?:-[\w.]+)*)--([\w.-]+?)(?:/|$)")

STRING = re.compile(r"'[^'\\]*(?:\\.[^'\\]*)*(?:'|\\?$)|\"[^\"\\]*(?:\\.[^\"\\]*)*(?:\"|\\?$)", re.DOTALL)
PLAIN = re.compile(r"[^'\"()\[\]{},]+")
NAME = re.compile(r"[ ,\n]*(?:([A-Za-z_]\w{0,99})(?:=|: )|'([^'\\]{1,100})': ?|\"([^\"\\]{1,100})\": ?)")
INTEGER = re.compile(r"[+-]?\d{1,18}$")
FLOAT = re.compile(r"[+-]?(?:\d{1,18}\.\d*|\.\d+|\d{1,18}\.?\d*[eE][+-]?\d{1,3})$")
OPENING = re.compile(r"server_args ?= ?(?:\w{1,40}\(|\{)|\s*\{|\s*\w{1,40}\(")
WORD = re.compile(r"[\w.+-]+")
WORDS: dict[str, Scalar] = {
    "True": True,
    "False": False,
    "None": None,
    "true": True,
    "false": False,
    "null": None,
}


def plain(text: str, limit: int) -> str:
    """Printable characters only, at most `limit` of them."""
    return "".join(character if character.isprintable() else " " for character in text[:limit]).strip()


class Arguments(NamedTuple):
    """What may be known of a server's arguments."""

    allowed: dict[str, Scalar]
    """Listed names with their values."""
    withheld: dict[str, str]
    """Other names that are set, each with an opaque digest."""


class Reader:
    """Walks a printed dictionary or call (Python or JSON style) without evaluating it; text in quotes stays text.

    It never raises and reads what there is of text that was cut.
    """

    def __init__(self, text: str, position: int = 0) -> None:
        self.text = text
        self.position = position

    def enter(self, bracket: str) -> bool:
        """Steps over an opening bracket, if it is next."""
        if self.text.startswith(bracket, self.position):
            self.position += len(bracket)
            return True
        return False

    def skip(self) -> None:
        """Moves behind the value that begins here, to a comma or closing bracket of this level, or the end."""
        text, at, depth, end = self.text, self.position, 0, len(self.text)
        while at < end:
            mark = text[at]
            if mark in "'\"":
                found = STRING.match(text, at)
                at = end if found is None else found.end()
            elif mark in "([{":
                depth += 1
                at += 1
            elif mark in ")]}":
                if depth == 0:
                    break
                depth -= 1
                at += 1
            elif mark == ",":
                if depth == 0:
                    break
                at += 1
            else:
                plain = PLAIN.match(text, at)
                at = end if plain is None else plain.end()
        self.position = at

    def names(self) -> Iterator[tuple[str, int]]:
        """Each name of this level with the position of its value."""
        while self.position < len(self.text):
            found = NAME.match(self.text, self.position)
            if found is not None:
                self.position = start = found.end()
                yield found[1] or found[2] or found[3], start
                self.position = start
            self.skip()
            if self.position >= len(self.text) or self.text[self.position] != ",":
                return
            self.position += 1

    def printed(self) -> Iterator[tuple[str, str, bool]]:
        """Each name of this level, its value as printed, and whether the value was cut off."""
        for name, start in self.names():
            ahead = Reader(self.text, start)
            ahead.skip()
            yield name, self.text[start : ahead.position].strip(), ahead.position >= len(self.text)

    def scalars(self) -> dict[str, object]:
        """The values of this level; nested ones are replaced by their own scalar members, one level deep."""
        found: dict[str, object] = {}
        for name, value, _ in self.printed():
            if value.startswith("{"):
                found[name] = {inner: scalar(text) for inner, text, _ in Reader(value, 1).printed()}
            else:
                found[name] = scalar(value)
        return found


def scalar(printed: str) -> Scalar:
    """A printed value as a value; what is no number, switch or string stays as printed."""
    if printed in WORDS:
        return WORDS[printed]
    if INTEGER.match(printed):
        return int(printed)
    if FLOAT.match(printed):
        return float(printed)
    if len(printed) >= 2 and printed[0] in "'\"" and printed[-1] == printed[0]:
        return re.sub(r"\\(.)", r"\1", printed[1:-1])
    return canonical(printed) if printed[:1] in ("[", "{", "(") else printed


def canonical(printed: str) -> str:
    """A nested value in one spelling, whether Python or JSON printed it."""
    parts: list[str] = []
    at = 0
    while at < len(printed):
        found = STRING.match(printed, at)
        if found is not None:
            parts.append("'" + found[0].strip("'\"") + "'")
            at = found.end()
            continue
        word = WORD.match(printed, at)
        if word is not None:
            value = WORDS.get(word[0], word[0])
            parts.append(str(value))
            at = word.end()
            continue
        if printed[at] not in " \n":
            parts.append(", " if printed[at] == "," else ": " if printed[at] == ":" else printed[at])
        at += 1
    return "".join(parts)


def short_model(path: str) -> str:
    """The name of a model without the path of anybody's machine."""
    cached = HUB_CACHE.search(path)
    if cached is not None:
        return f"{cached[1]}/{cached[2]}"
    if HUB_NAME.match(path) and not path.startswith(("./", "../")):
        return path
    parts = [part for part in path.replace("\\", "/").split("/") if part]
    return parts[-1].partition("?")[0] if parts else ""


def shown(name: str, value: Scalar) -> Scalar:
    """An allowed value as it may be shown: clean, bounded, free of paths."""
    if not isinstance(value, str):
        return value
    value = short_model(value) if name in MODELS or "/" in value else value
    return plain(value, VALUE_LIMIT)


def is_allowed(name: str, value: Scalar) -> bool:
    """Whether the value may be shown."""
    return name in ALLOWED or (FORK.match(name) is not None and isinstance(value, (bool, int, float)))


def digest(printed: str, key: bytes) -> str:
    """Tells whether a value changed, and nothing else; the key must be random and kept to this process.

    Without a key it only says that the value is set: a digest that anybody can compute could be guessed from.
    """
    if not key:
        return "set"
    return blake2b(printed.encode("utf-8", "replace"), key=key[:64], digest_size=8).hexdigest()


def read_arguments(text: str, key: bytes) -> Arguments:
    """Reads `server_args=ServerArgs(…)`, `server_args={…}` or the JSON of /server_info, whole or cut at its end."""
    allowed: dict[str, Scalar] = {}
    withheld: dict[str, str] = {}
    opening = OPENING.match(text)
    if opening is None:
        return Arguments(allowed, withheld)
    for name, printed, cut in Reader(text, opening.end()).printed():
        if cut or len(allowed) + len(withheld) >= COUNT_LIMIT:
            break
        name = plain(name, NAME_LIMIT)
        if name in NOISE or not name.replace("_", "").isalnum():
            continue
        value = scalar(printed)
        if is_allowed(name, value):
            allowed[name] = shown(name, value)
        elif not (value is None or value is False or value in ("", "[]", "{}", "()")):
            withheld[name] = digest(str(value), key)
    return Arguments(allowed, withheld)


def identity(arguments: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The part that decides which profile holds, in order of name."""
    return {name: value for name, value in sorted(arguments.items()) if name in IDENTITY or FORK_BUDGET.match(name)}


def judged(arguments: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The part that moves performance under the same profile, in order of name."""
    return {
        name: value
        for name, value in sorted(arguments.items())
        if (name in JUDGED or FORK.match(name)) and name not in IDENTITY and not FORK_BUDGET.match(name)
    }


UNSET = ("", "auto", "none", "null", "[]", "{}")
"""Words that say no more than the absence of the name, which another release may have dropped or added."""


def is_unset(value: Scalar) -> bool:
    """Whether a value says nothing; 0 says something."""
    return value is None or value is False or (isinstance(value, str) and value in UNSET)


def changes(before: ServerStart, after: ServerStart) -> tuple[str, ...]:
    """What differs between two starts, in words, in order of name; withheld values only as set, unset, changed."""
    told: list[tuple[str, str]] = []
    # Of a line that was cut, only what it still says is compared.
    known_before = before.arguments.keys() | before.withheld.keys()
    known_after = after.arguments.keys() | after.withheld.keys()
    smaller, larger = sorted((len(known_before), len(known_after)))
    cut = larger >= 40 and smaller < 0.7 * larger
    for name in (known_before & known_after) if cut else (known_before | known_after):
        if name in before.withheld or name in after.withheld:
            old_digest, new_digest = before.withheld.get(name), after.withheld.get(name)
            if old_digest is None:
                told.append((name, f"{name} set"))
            elif new_digest is None:
                told.append((name, f"{name} unset"))
            elif old_digest != new_digest:
                told.append((name, f"{name} changed"))
            continue
        told.extend((name, words) for words in change(name, before.arguments.get(name), after.arguments.get(name)))
    return tuple(words for _, words in sorted(told))


def change(name: str, old: Scalar, new: Scalar) -> list[str]:
    """The words for one allowed name."""
    if (old == new and isinstance(old, bool) == isinstance(new, bool)) or (is_unset(old) and is_unset(new)):
        return []
    if old is None or old is False:
        return [f"+{name}" if new is True else f"+{name} {new}"]
    if new is None or new is False:
        return [f"-{name}" if old is True else f"-{name} {old}"]
    return [f"{name} {old} → {new}"]
