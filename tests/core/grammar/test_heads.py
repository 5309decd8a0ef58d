"""Single lines of every head and dialect beyond the golden logs."""

from typing import Any

import pytest

from ddwatch.core.records import (
    Crash,
    DecodeBatch,
    GraphSizes,
    JitCompile,
    LoadProgress,
    PoolSized,
    PrefillBatch,
    RequestDone,
    ServerReady,
    ServerStart,
    ServerStop,
    SpeculationSetup,
    TreeProfile,
    Unread,
    VerifyDrafts,
    VerifyTiming,
    Xid,
)
from tests.core.grammar.golden import plain, read_all

STAMP = "[2026-05-01 12:00:00 TP0] "
DECODE = "Decode batch, #running-req: 2, #token: 100, gen throughput (token/s): 50.00, #queue-req: 0"
PLACE = {"at", "stamp", "line", "record", "rank"}


def read_one(line: str) -> Any:
    """The single record of a single line."""
    (record,) = read_all([line.encode()])
    return record


def said(line: str) -> dict[str, Any]:
    """What a single line says, beside its place."""
    return {name: value for name, value in plain(read_one(line)).items() if name not in PLACE}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Decode batch, #running-req: 2, accept rate: 1.30", {"running": 2, "accept_rate": 1.3}),
        ("Decode batch, accept len: nan, gen throughput (token/s): 5.0", {"throughput_tokens_per_second": 5.0}),
        ("Decode batch, #running-req: 1, token usage: nan%", {"running": 1}),
        ("Decode batch, #running-req: 1, tpu graph: True", {"running": 1, "graph": True}),
        ("Decode batch, #running-req: 1, tpu graph: maybe", {"running": 1, "extra": [["tpu graph", "maybe"]]}),
        ("Decode batch, #running-req: 1, mamba num: many", {"running": 1, "extra": [["mamba num", "many"]]}),
        ("Decode batch, #running-req: 1, #running-req: 7", {"running": 1}),
        ("Decode batch, #token: 9, #full token: 8", {"total_context_tokens": 9}),
        ("Decode batch, #running-req: 1,#token: 7,", {"running": 1, "total_context_tokens": 7}),
        ("Decode batch, #running-req: 3, #token: 0",
         {"running": 3, "total_context_tokens": 0, "context_flaw": "request-end"}),
        ("Decode batch, #running-req: 0, #token: 0", {"running": 0, "total_context_tokens": 0}),
        ("Decode batch, accept len: 1e400", {}),
        ("Decode batch [7] phase=tp, #running-req: 1", {"running": 1, "iteration": 7, "extra": [["phase", "tp"]]}),
        (f"{DECODE}\rCapturing: 10%|",
         {"running": 2, "total_context_tokens": 100, "throughput_tokens_per_second": 50.0, "queued": 0}),
        ("Decode batch, #running-req: 1, gen throughput (token/s): 7.50 [repeated 3x across cluster]",
         {"running": 1, "throughput_tokens_per_second": 7.5, "extra": [["repeated", "3x"]]}),
    ],
)  # fmt: skip
def test_decode_dialects(line: str, expected: dict[str, Any]) -> None:
    assert said(line) == expected


@pytest.mark.parametrize(
    ("line", "head", "example"),
    [
        (
            f"{STAMP}Decode batch, #running-req: many, #token: 7",
            "Decode batch",
            "#running-req: <text>, #token: <number>",
        ),
        ("Decode batch, gen throughput (token/s): fast", "Decode batch", "gen throughput (token/s): <text>"),
        ("Decode batch, my secret words: hunter2", "Decode batch", "<key>: <text>"),
        ("Decode batch | #running-req=3", "Decode batch", "Decode batch"),
        ("Decode batch, #runn", "Decode batch", "Decode batch"),
        ("Decode batch, #running-req: 4/7", "Decode batch", "<number and text>"),
        ("Decode batch, #token:", "Decode batch", "#token: <nothing>"),
        ("Prefill batch, #new-seq: x", "Prefill batch", "#new-seq: <text>"),
        ("Prefill batch | #new-seq=3", "Prefill batch", "Prefill batch"),
        ("Prefill batch, user: secret", "Prefill batch", "<key>: <text>"),
        ("Capture cuda graph bs none", "Capture graph bs", "Capture graph bs"),
        ("max_total_num_tokens=lots", "max_total_num_tokens", "max_total_num_tokens"),
        ("NVRM: Xid (unknown)", "NVRM: Xid", "NVRM: Xid"),
        ("DDTREE verify completed. lens=(4, 7)", "verify completed", "verify completed"),
        ("DFLASH decode-batch timing (synced wall ms): bs=1 total=fast", "decode-batch timing", "decode-batch timing"),
        ("DFLASH decode-batch timing (synced wall ms): bs=1", "decode-batch timing", "decode-batch timing"),
        ("server_args=ServerArgs(", "server_args", "server_args"),
    ],
)
def test_a_known_head_with_unknown_fields_is_unread_and_masked(line: str, head: str, example: str) -> None:
    record = read_one(line)
    assert isinstance(record, Unread)
    assert record.head == head
    assert example in record.example
    assert "secret" not in record.example
    assert "hunter2" not in record.example


@pytest.mark.parametrize(
    "line",
    [
        "Decode batch size is 5",
        "Prefill batch sizes are cached",
        "the Decode batch, #running-req: 1",
        "> Decode batch, #running-req: 1, gen throughput (token/s): 1.0",
        "DFLASH draft runner ready. mask_token=x",
        "Initialized DDTree worker. nothing known",
        "Finish: obj=GenerateReqInput(text='a')",
        "Finish: obj=GenerateReqInput(text='a'), out={'text': 'x', 'meta_info': {'id': 'a'}}",
        "Finish: obj=GenerateReqInput(text='a'), out=None",
        '{"event": "request.finished", "out": []}',
        '{"event": "request.finished", "out": {"meta_info": {}}}',
        '{"rid": "request.finished", "event": "request.received"}',
        '{"event": "request.started", "rid": "x", "event": "request.finished"',
        '{"note": "sglang_speculative_tree_profile"}',
        '{"type": "other", "note": "sglang_speculative_tree_profile"}',
        '{"type": 7, "x": "sglang_speculative_tree_profile"}',
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
        "Out of memory: Killed process 99 (firefox)",
    ],
)
def test_lines_that_say_nothing(line: str) -> None:
    assert read_all([line.encode()]) == []


@pytest.mark.parametrize(
    ("line", "kind", "fields"),
    [
        ("Prefill batch [9] phase=x, #new-seq: 1, #new-seq: 2, token usage: x", PrefillBatch,
         {"new_requests": 1, "iteration": 9, "extra": [["phase", "x"], ["token usage", "x"]]}),
        ("Prefill batch. #new-seq: 1, odd graph: True, even graph: ?", PrefillBatch,
         {"new_requests": 1, "graph": True, "extra": [["even graph", "?"]]}),
        ("Capture npu graph begin.", LoadProgress, {"phase": "graph-begin"}),
        ("Capture draft extend CUDA graph end. Time elapsed: 3.25 s.", LoadProgress,
         {"phase": "graph-end", "seconds": 3.25}),
        ("Capture target verify cuda graph bs=[1, 2, 4", GraphSizes, {"sizes": [1, 2, 4]}),
        ("Load weight end. elapsed=0.50 s, type=KimiK2ForCausalLM, x", LoadProgress,
         {"phase": "weights-end", "seconds": 0.5, "model_type": "KimiK2ForCausalLM"}),
        ("max_total_num_tokens=100", PoolSized, {"max_total_tokens": 100}),
        ("The server is fired up and ready to roll!", ServerReady, {}),
        ("Gracefully exiting... Remaining number of requests 0.", ServerStop, {}),
        ("INFO:     Shutting down", ServerStop, {}),
        ("[2026-05-01 12:00:00] INFO:     Finished server process [7]", ServerStop, {}),
        ("SIGTERM received. signum=15. Draining requests and shutting down...", ServerStop, {}),
        ("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)", Crash,
         {"kind": "watchdog", "reason": "soft watchdog: reported, not killed"}),
        ("[rank3]:[E501 12:00:00.1 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: x",
         Crash, {"kind": "nccl", "reason": "collective operation timeout"}),
        ("[rank0]:[F501 12:00:00.1 ProcessGroupNCCL.cpp:1] ran into NCCL error", Crash,
         {"kind": "nccl", "reason": "NCCL error"}),
        ("May  1 12:00:00 host kernel: Out of memory: Killed process 99 (python3) total-vm:1kB", Crash,
         {"kind": "killed", "reason": "killed by the kernel: out of memory"}),
        ("Rank 0 scheduler died during initialization", Crash, {"kind": "killed"}),
        ("Child process unexpectedly failed with an exit code 131. pid=7", Crash, {"kind": "killed"}),
        ("DetokenizerManager hit an exception: ValueError: boom", Crash,
         {"kind": "exception", "reason": "ValueError: boom"}),
        ("Scheduler hit an exception: torch.OutOfMemoryError: CUDA out of memory.", Crash,
         {"kind": "out-of-memory", "reason": "OutOfMemoryError: CUDA out of memory."}),
        ("Triton kernel took long. Entering", None, {}),
        ("Try DeepGEMM JIT Compiling for <GEMM>", JitCompile, {"what": "DeepGEMM GEMM"}),
        ("flashinfer.jit: Loading JIT ops: a_b", JitCompile, {"what": "flashinfer a_b"}),
        ("Triton kernel 'odd name!' is compiled", JitCompile, {"what": "Triton"}),
        ("NVRM: GPU at PCI:0000:b3:00: GPU has fallen off the bus.", Xid, {"pci_bus": "0000:b3:00"}),
        ("Initialized DDTree worker. block_size=16, tree_budget=32, max_tree_nodes=33", SpeculationSetup,
         {"algorithm": "DDTREE", "block_size": 16, "tree_budget": 32, "max_tree_nodes": 33}),
        ("DDTREE verify completed. commit_lens=[5, 1, 0]", VerifyDrafts, {"drafts": [4, 0, 0], "tokens": [5, 1, 0]}),
        ("X1_TREE decode-batch timing (synced wall ms): bs=2 verify=19.842", VerifyTiming,
         {"batch": 2, "verify_seconds": 0.019842}),
        ('{"type": "sglang_speculative_tree_profile", "meta": {"tree_budget": 3}, '
         '"stages": {"target_verify": {"gpu_avg_ms": true}}}',
         TreeProfile, {}),
        ('{"timestamp": "x", "event": "request.finished", "obj": {"text": "Decode batch, #running-req: 1"}, '
         '"out": {"text": "secret", "meta_info": {"prompt_tokens": 3, "completion_tokens": 5, "e2e_latency": 0.5, '
         '"spec_accept_length": 2.5, "spec_verify_ct": 2, "finish_reason": {"type": "length"}}}}', RequestDone,
         {"prompt_tokens": 3, "completion_tokens": 5, "latency_seconds": 0.5, "accept_length": 2.5, "verify_steps": 2,
          "finish_reason": "length"}),
        ("Finish: obj=GenerateReqInput(text=\"it's 'meta_info': {'completion_tokens': 9}\"), out=[{'text': 'b', "
         "'meta_info': {'prompt_tokens': True, 'completion_tokens': 4, 'finish_reason': 'secret'}}]", RequestDone,
         {"completion_tokens": 4}),
    ],
)  # fmt: skip
def test_other_heads(line: str, kind: type | None, fields: dict[str, Any]) -> None:
    if kind is None:
        assert read_all([line.encode()]) == []
        return
    assert isinstance(read_one(line), kind)
    assert said(line) == fields


def test_server_arguments_are_read_from_a_start_line() -> None:
    record = read_one(f"{STAMP}server_args=ServerArgs(model_path='/data/alice/kimi', api_key='hunter2', tp_size=8)")
    assert isinstance(record, ServerStart)
    assert record.arguments == {"model_path": "kimi", "tp_size": 8}
    assert list(record.withheld) == ["api_key"]
    assert "hunter2" not in record.withheld["api_key"]


@pytest.mark.parametrize(
    ("before", "stamp", "rank"),
    [
        ("TP0] ", None, {"tp": 0}),
        ("12:00:00 DP1 TP2] ", "12:00:00", {"dp": 1, "tp": 2}),
        ("05-01 12:00:00 TP2] ", None, {"tp": 2}),
        ("[2026-05-01T12:00:00Z TP1] ", "2026-05-01 12:00:00", {"tp": 1}),
        ("[2026-05-01 12:00:00 odd words] ", "2026-05-01 12:00:00", {}),
        ("[sglang] | [12:00:00 TP0] ", "12:00:00", {"engine": "sglang", "tp": 0}),
        ("[pod/kimi-0/sglang] [2026-05-01 12:00:00] ", "2026-05-01 12:00:00", {"engine": "pod/kimi-0/sglang"}),
        ("May  1 12:00:00 gpuhost python3[42]: [2026-05-01 12:00:00.5 TP1] ", "2026-05-01 12:00:00.5", {"tp": 1}),
        ("May  1 12:00:00 gpuhost python3[42]: ", "May  1 12:00:00", {}),
        ("Fri 2026-05-01 12:00:00 UTC gpuhost python3[42]: ", "2026-05-01 12:00:00", {}),
        ("2026-05-01T12:00:00+0000 gpuhost python3[42]: ", "2026-05-01 12:00:00", {}),
        ("2026-05-01T12:00:00.123456789Z ", "2026-05-01 12:00:00", {}),
        ("2026-13-01T12:00:00Z ", None, {}),
        ("INFO:sglang.srt:", None, {}),
        ("2026-05-01 12:00:00,123 - sglang.srt - INFO - ", "2026-05-01 12:00:00.123", {}),
        ("WARNING ", None, {}),
        ("[1843.308145] ", None, {}),
        ("[ 1843.308145] ", None, {}),
        ("[Fri May  1 12:00:00 2026] ", "May  1 12:00:00", {}),
        ("\x1b[36m(Engine pid=7)\x1b[0m ", None, {"engine": "Engine pid=7"}),
        ("a | b | ", None, {"engine": "b"}),
        ("a | b | c | d | ", None, {"engine": "d"}),
        ("2026-13-01T12:00:00Z [2026-05-01 12:00:00] ", "2026-05-01 12:00:00", {}),
    ],
)
def test_prefixes(before: str, stamp: str | None, rank: dict[str, Any]) -> None:
    record = read_one(before + DECODE)
    assert isinstance(record, DecodeBatch)
    assert record.stamp == stamp
    assert plain(record).get("rank", {}) == rank


@pytest.mark.parametrize("before", ["[not a prefix] ", "(Engine) ", "say: ", "Mon day ", "2026-05-01 noon "])
def test_what_is_no_prefix_is_message(before: str) -> None:
    assert read_all([(before + DECODE).encode()]) == []
