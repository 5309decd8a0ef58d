"""Profiles to read and to break: a whole TOML document, and the founding one."""

from pathlib import Path

from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.profile_text import read_profile

ROOT = Path(__file__).resolve().parents[3]
FOUNDING_TEXT = (ROOT / "ddwatch/profiles/kimi-k2.6-ddtree-8x-rtx-pro-6000.toml").read_text(encoding="utf-8")

WHOLE = """
schema = 1
name = "mine"
calibrated = true
prefill_tokens_per_second = 5000.0

[identity]
model = "m"
tp = 8

[judged]
version = "0.5.12"
disable_cuda_graph = false

[evidence]
samples = 400
contexts = [100, 8000]
batches = [1, 2, 4]
provenance = "log"
created = "2026-05-01T12:00:00+00:00"

[[evidence.region]]
batch = [1, 4]
total_context = [100, 8000]
samples = 400
fit_error = 0.01

[step_time]
span = "step"
batch_knots = [1, 2, 4]
context_knots = [100, 2000, 8000]
coefficients = [0.02, 0.001, 0.002, 1e-6, 2e-6]
lag1_autocorrelation = 0.3
local_fit_error = 0.012

[step_time.residual_quantiles]
p01 = -0.08
p05 = -0.05
p25 = -0.02
p50 = 0.0
p75 = 0.02
p95 = 0.06
p99 = 0.1

[[accept]]
class = "overall"
context = [500, 4000]
p1 = [1.2, 1.1]
p10 = [2.0, 1.8]
p50 = [3.0, 2.6]
p90 = [7.0, 6.0]

[[accept]]
class = "code"
context = [1000]
p50 = [5.0]

[[reference]]
label = "the good days"
context = 1000
batch = 2
accept = 5.0
tokens_per_second = 300.0
"""


def profile(text: str) -> Profile:
    """The profile in a text that must hold one."""
    found = read_profile(text)
    assert isinstance(found, Profile), found
    return found


def whole() -> Profile:
    """The document above."""
    return profile(WHOLE)


def founding() -> Profile:
    """The built-in profile of the founding case."""
    return profile(FOUNDING_TEXT)
