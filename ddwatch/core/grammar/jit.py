"""Kernels are being compiled: the service is warming, before or after it said that it is ready."""

import re

from ddwatch.core.grammar.message import Format, Message
from ddwatch.core.grammar.text import clean
from ddwatch.core.records import JitCompile, Record

TRITON = re.compile(r"Triton kernel '([\w.<>-]{1,100})' took (\d{1,6}(?:\.\d{1,9})?) s\b")
DEEPGEMM = re.compile(r"Try DeepGEMM JIT Compiling for <([\w.]{1,60})>")
OPS = re.compile(r"flashinfer\.jit: (?:Loading|Finished loading) JIT ops: ([\w.]{1,120})")


def read(message: Message) -> Record | None:
    """What is compiled, and how long it took where that is said."""
    text = message.text
    seconds: float | None = None
    if triton := TRITON.match(text):
        what = f"Triton {triton[1]}"
        seconds = float(triton[2])
    elif kernel := DEEPGEMM.match(text):
        what = f"DeepGEMM {kernel[1]}"
    elif ops := OPS.match(text):
        what = f"flashinfer {ops[1]}"
    elif text.startswith("flashinfer"):
        what = "flashinfer"
    elif text.startswith("Triton"):
        what = "Triton"
    else:
        what = "DeepGEMM"
    return JitCompile(**message.where, what=clean(what, 120), seconds=seconds)


FORMAT = Format(
    "jit",
    r"Triton kernel '|Entering DeepGEMM JIT|Try DeepGEMM JIT|DeepGEMM warmup\b"
    r"|flashinfer\.jit: (?:Loading JIT|Finished loading JIT|Prebuilt kernels not found)",
    read,
)
