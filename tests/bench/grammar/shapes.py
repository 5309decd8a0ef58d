"""Generates logs of one line shape each, and the mtail program that extracts the same fields from it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

RANKS = 8
LINES_PER_SECOND = 32
"""Eight DP ranks at four lines per second each."""


def stamp(index: int) -> str:
    """The log's own time of a line."""
    second = index // LINES_PER_SECOND
    return f"2026-05-01 {second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def standard(index: int) -> str:
    """0.5.23 with speculation and DP."""
    rank = index % RANKS
    return (
        f"[{stamp(index)} DP{rank} TP{rank}] Decode batch, #running-req: {1 + index % 7}, "
        f"#token: {5989 + index % 90000}, token usage: 0.{index % 90 + 10}, accept len: {1 + index % 700 / 100:.2f}, "
        f"accept rate: 0.{index % 90 + 10}, cuda graph: True, "
        f"gen throughput (token/s): {32 + index % 300}.{index % 90 + 10}, #queue-req: {index % 5}"
    )


def fork(index: int) -> str:
    """A hybrid model under a fork that prints its rounds."""
    return (
        f"[{stamp(index)} DP0 TP0] Decode batch, #running-req: {1 + index % 7}, #full token: {5989 + index % 90000}, "
        f"full token usage: 0.{index % 90 + 10}, #swa token: {100 + index % 900}, swa token usage: 0.05, "
        f"spec tokens: {120 + index % 100}, spec rounds: 40, accept len: {1 + index % 700 / 100:.2f}, "
        f"accept rate: 0.33, cuda graph: True, gen throughput (token/s): {32 + index % 300}.50, #queue-req: 0"
    )


def disaggregated(index: int) -> str:
    """A PD decode node."""
    return (
        f"[{stamp(index)} DP0 TP0 EP0] Decode batch, #running-req: {1 + index % 7}, #token: {5989 + index % 90000}, "
        f"token usage: 0.27, accept len: {1 + index % 700 / 100:.2f}, accept rate: 0.82, pre-allocated usage: 0.02, "
        f"#prealloc-req: 3, #transfer-req: 2, #retracted-req: 0, cuda graph: True, "
        f"gen throughput (token/s): {32 + index % 300}.80, #queue-req: 0, "
    )


def measured(index: int) -> str:
    """0.5.12 and later with --enable-mfu-metrics: fields behind the queue."""
    return (
        f"{standard(index)}, est. decode TFLOPS/s (per GPU): 12.30, est. read BW (GB/s per GPU): 456.70, "
        f"est. write BW (GB/s per GPU): 1.20, fwd occupancy: 97.31%"
    )


def old(index: int) -> str:
    """0.2: no stamp, no rank."""
    return (
        f"Decode batch. #running-req: {1 + index % 900}, #token: {5989 + index % 90000}, token usage: 0.92, "
        f"gen throughput (token/s): {1402 + index % 300}.55, #queue-req: {index % 500}"
    )


def prefill(index: int) -> str:
    """0.5.23."""
    return (
        f"[{stamp(index)} DP0 TP0] Prefill batch, #new-seq: {1 + index % 4}, #new-token: {900 + index % 8000}, "
        f"#cached-token: {index % 500}, token usage: 0.10, #running-req: {index % 7}, #queue-req: 0, "
        f"#pending-token: 0, cuda graph: False, input throughput (token/s): {1800 + index % 900}.20"
    )


def access(index: int) -> str:
    """Uvicorn's line for a poll."""
    return f'[{stamp(index)}] INFO:     127.0.0.1:{40000 + index % 9999} - "GET /v1/loads?include=all HTTP/1.1" 200 OK'


def other(index: int) -> str:
    """A stamped line that nobody claims."""
    return f"[{stamp(index)} TP0] Tree cache initialized: source=default impl=UnifiedRadixCache number={index}"


def bare(index: int) -> str:
    """A line without any prefix: part of a traceback or a library's output."""
    return f'  File "/usr/lib/python3/site-packages/torch/nn/modules/module.py", line {index}, in _call_impl'


def journald(index: int) -> str:
    """`journalctl -o json`."""
    return (
        f'{{"__CURSOR":"s=0b1d;i={index:x};b=77aa","__REALTIME_TIMESTAMP":"{1777636800000000 + index * 31250}",'
        '"_BOOT_ID":"77aa1c2d3e4f","PRIORITY":"6","_TRANSPORT":"stdout","_SYSTEMD_UNIT":"sglang.service",'
        f'"SYSLOG_IDENTIFIER":"python3","_PID":"4242","MESSAGE":"{standard(index)}"}}'
    )


def docker(index: int) -> str:
    """Docker's json-file."""
    second = index // LINES_PER_SECOND
    moment = f"2026-05-01T{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{index % 1000:03d}220193Z"
    return f'{{"log":"{standard(index)}\\n","stream":"stderr","time":"{moment}"}}'


def compose(index: int) -> str:
    """Docker compose."""
    return f"sglang-1  | {standard(index)}"


LENGTHS = """
histogram accept_length by dp buckets 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 8.5, 9, 10, 12, 14, 17
"""
METRICS = """
gauge running by dp
gauge total_context by dp
gauge usage by dp
gauge throughput by dp
gauge queued by dp
counter lines by dp
"""
STAMP = r"\[(?P<date>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?: DP(?P<dp>\d+))?(?: [A-Z]+\d+)*\] "
BODY = (
    r"Decode batch[.,] #running-req: (?P<running>\d+), #(?:full )?token: (?P<token>\d+), "
    r"(?:full )?token usage: (?P<usage>\d+\.\d+)"
)
SPECULATIVE = r"(?:, accept len: (?P<accept>\d+\.\d+))?(?:, accept rate: (?P<rate>\d+\.\d+))?"
TAIL = (
    r"(?:, \w+ graph: (?P<graph>True|False))?, gen throughput \(token\/s\): (?P<speed>\d+\.\d+), "
    r"#queue-req: (?P<queue>\d+)"
)
ACTIONS = """{
  strptime($date, "2006-01-02 15:04:05")
  lines[$dp]++
  running[$dp] = $running
  total_context[$dp] = $token
  usage[$dp] = $usage
  throughput[$dp] = $speed
  queued[$dp] = $queue
  accept_length[$dp] = $accept
}
"""


def program(head: str = "^", between: str = "", after: str = "") -> str:
    """An mtail program for decode lines: what stands before the stamp, and fields of this shape only."""
    return f"{METRICS}{LENGTHS}/{head}{STAMP}{BODY}{between}{SPECULATIVE}{after}{TAIL}/ {ACTIONS}"


OLD = f"""{METRICS}
/^{BODY}{TAIL}/ {{
  lines[""]++
  running[""] = $running
  total_context[""] = $token
  usage[""] = $usage
  throughput[""] = $speed
  queued[""] = $queue
}}
"""
PREFILL = (
    METRICS
    + r"/^"
    + STAMP
    + r"Prefill batch[.,] #new-seq: (?P<requests>\d+), #new-token: (?P<token>\d+), #cached-token: (?P<cached>\d+), "
    + r"token usage: (?P<usage>\d+\.\d+), #running-req: (?P<running>\d+), #queue-req: (?P<queue>\d+), "
    + r"#pending-token: (?P<pending>\d+)(?:, \w+ graph: (?P<graph>True|False))?, "
    + r"input throughput \(token\/s\): (?P<speed>\d+\.\d+)/ {"
    + """
  strptime($date, "2006-01-02 15:04:05")
  lines[$dp]++
  running[$dp] = $running
  total_context[$dp] = $token
  usage[$dp] = $usage
  throughput[$dp] = $speed
  queued[$dp] = $queue
}
"""
)
FORK_FIELDS = (
    r"(?:, #swa token: (?P<swa>\d+), swa token usage: (?P<swausage>\d+\.\d+))?"
    r"(?:, spec tokens: (?P<spectokens>\d+), spec rounds: (?P<specrounds>\d+))?"
)
PD_FIELDS = (
    r"(?:, pre-allocated usage: (?P<pre>\d+\.\d+))?(?:, #prealloc-req: (?P<prealloc>\d+))?"
    r"(?:, #transfer-req: (?P<transfer>\d+))?(?:, #retracted-req: (?P<retracted>\d+))?"
)


@dataclass(frozen=True)
class Shape:
    """One kind of line."""

    name: str
    line: Callable[[int], str]
    program: str
    """The mtail program."""
    factor: float
    """How many times mtail's lines per second the grammar must reach."""
    records: bool = True
    """Whether each line is a record."""

    def lines(self, count: int) -> Iterator[str]:
        """So many lines."""
        return map(self.line, range(count))


SHAPES: tuple[Shape, ...] = (
    Shape("decode, speculative, DP8", standard, program(), 3.0),
    Shape("prefill", prefill, PREFILL, 3.0),
    Shape("decode 0.2, no stamp", old, OLD, 1.0),
    Shape("decode, hybrid and fork fields", fork, program(between=FORK_FIELDS), 1.0),
    Shape("decode, PD fields", disaggregated, program(after=PD_FIELDS), 1.0),
    Shape("decode, MFU fields at the end", measured, program(), 1.0),
    Shape("uvicorn access", access, program(), 1.0, records=False),
    Shape("stamped, unclaimed", other, program(), 1.0, records=False),
    Shape("bare, unclaimed", bare, program(), 1.0, records=False),
    Shape("journald json", journald, program(head=r'"MESSAGE":"'), 1.0),
    Shape("docker json-file", docker, program(head=r'^\{"log":"'), 1.0),
    Shape("docker compose", compose, program(head=r"^(?P<service>[\w.-]+) +\| "), 1.0),
)
