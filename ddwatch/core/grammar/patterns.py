"""The shapes of the lines that make up nearly all of a log, as bytes patterns: what the short way reads."""

import re

from ddwatch.core.grammar import FORMATS
from ddwatch.core.grammar.prefix import LEVELS

COUNT = rb"(\d{1,15})"
FRACTION = rb"([\d.]{3,17})"
"""Looser than a number: what `float` refuses is left to the general way."""
GRAPH = rb"(?:, (?:cuda|cpu|npu|musa|hip|xpu) graph: (True|False))?"
STAMPED = rb"\[([\d: -]{19})((?: [A-Z\d ]{0,60})?)\] "
"""Looser than a stamp: whether it is one is asked when it changes."""
STAMP = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\Z")
BARE = rb"()()"
DECODE_BODY = (
    rb"Decode batch(?: \[(\d{1,15})\])?[.,] #running-req: "
    + COUNT
    + rb", #token: "
    + COUNT
    + rb", token usage: "
    + FRACTION
    + rb"(?:, accept len: "
    + FRACTION
    + rb")?(?:, accept rate: "
    + FRACTION
    + rb")?"
    + GRAPH
    + rb", gen throughput \(token/s\): "
    + FRACTION
    + rb", #queue-req: "
    + COUNT
    + rb"(?:, ?)?\Z"
)
DECODE = re.compile(STAMPED + DECODE_BODY)
BARE_DECODE = re.compile(BARE + DECODE_BODY)
"""The lines of 0.2 to 0.5.23 for models with one pool."""

WIDE = re.compile(
    STAMPED
    + rb"Decode batch(?: \[(\d{1,15})\])?[.,] #running-req: "
    + COUNT
    + rb", #(?:full )?token: "
    + COUNT
    + rb", (?:full )?token usage: "
    + FRACTION
    + rb"(?:, #swa token: "
    + COUNT
    + rb", swa token usage: "
    + FRACTION
    + rb")?(?:, mamba num: "
    + COUNT
    + rb", mamba usage: "
    + FRACTION
    + rb")?(?:, spec tokens: "
    + COUNT
    + rb", spec rounds: "
    + COUNT
    + rb")?(?:, accept len: "
    + FRACTION
    + rb")?(?:, accept rate: "
    + FRACTION
    + rb")?(?:, spec tokens: "
    + COUNT
    + rb", spec rounds: "
    + COUNT
    + rb")?(?:, pre-allocated usage: "
    + FRACTION
    + rb")?(?:, #prealloc-req: "
    + COUNT
    + rb")?(?:, #transfer-req: "
    + COUNT
    + rb")?(?:, #retracted-req: "
    + COUNT
    + rb")?"
    + GRAPH
    + rb", gen throughput \(token/s\): "
    + FRACTION
    + rb"(?:, largest-len: "
    + COUNT
    + rb")?, #queue-req: "
    + COUNT
    + rb"(?:, est\. decode TFLOPS/s \(per GPU\): "
    + FRACTION
    + rb")?(?:, est\. read BW \(GB/s per GPU\): "
    + FRACTION
    + rb")?(?:, est\. write BW \(GB/s per GPU\): "
    + FRACTION
    + rb")?(?:, fwd occupancy: (\d{1,3}\.\d{1,6}%|nan%))?"
    + rb"(?:, ?)?\Z"
)
"""The same with the fields of hybrid models, disaggregation, MFU metrics and forks, in their order."""

WIDE_EXTRAS = (
    "swa token usage",
    "pre-allocated usage",
    "#prealloc-req",
    "#transfer-req",
    "largest-len",
    "est. decode TFLOPS/s (per GPU)",
    "est. read BW (GB/s per GPU)",
    "est. write BW (GB/s per GPU)",
    "fwd occupancy",
)
"""Fields of these lines that records keep as printed, in the order that they are printed in."""

PREFILL = re.compile(
    STAMPED
    + rb"Prefill batch(?: \[(\d{1,15})\])?[.,] #new-seq: "
    + COUNT
    + rb", #new-token: "
    + COUNT
    + rb", #cached-token: "
    + COUNT
    + rb", (?:full )?token usage: "
    + FRACTION
    + rb", #running-req: "
    + COUNT
    + rb", #queue-req: "
    + COUNT
    + rb"(?:, #pending-token: "
    + COUNT
    + rb")?"
    + GRAPH
    + rb"(?:, input throughput \(token/s\): "
    + FRACTION
    + rb")?(?:, ?)?\Z"
)

HEADS = "|".join(form.head for form in FORMATS).encode()
UNCLAIMED = re.compile(
    STAMPED
    + rb"(?:INFO:     \d{1,3}\.\d|(?![\s:\[\d]|(?:Finish|Receive): |(?:"
    + LEVELS.encode()
    + rb")|"
    + HEADS
    + rb"))[^\x1b\x00]*\Z"
)
"""Access lines, and stamped lines that no format claims."""
BARE_UNCLAIMED = re.compile(
    rb"(?:INFO:     \d{1,3}\.\d|[ \t]*(?:(?!" + HEADS + rb")[a-z\"'^~#<@*+=/_]|File \")[^|%\r\x1b\x00]*\Z|[ \t]*\Z)"
)
"""Access lines without stamp, most lines of tracebacks and of libraries that print, blank lines."""
CARRIED = re.compile(
    rb"(?:\(([A-Za-z_][\w.:]{0,63} pid=\d{1,10}(?:, ip=[\w.:]{1,64})?)\) ?|([A-Za-z0-9][\w.-]{0,63}) *\| ?"
    rb"|(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) +)"
    rb"(?=\[\d{4}-\d\d-\d\d \d)"
)
"""One of Ray, docker compose and kubectl before a stamped line."""
