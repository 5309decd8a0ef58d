"""How much the residuals of healthy lines scatter and hang together: from the profile, corrected by what is seen."""

from collections import deque
from itertools import pairwise
from statistics import median

from msgspec import Struct

from ddwatch.core.expectation.profile import Profile

SMALLEST_SPREAD = 0.01
"""Below this the model, not the lines, is what errs."""
LARGEST_SPREAD = 0.15
UNKNOWN_SPREAD = 0.05
UNKNOWN_LAG = 0.3
LARGEST_LAG = 0.9
SEEN_LINES = 256
NEEDED_LINES = 128
EVERY_LINES = 64
"""What is seen is measured again after so many quiet lines."""
MAD_TO_SIGMA = 1.4826


class Noise(Struct, frozen=True):
    """Line residuals at rest."""

    spread: float
    """Standard deviation of one line's ln(step / expected)."""
    lag: float
    """Correlation of consecutive lines."""


def of_profile(profile: Profile) -> Noise:
    """What the fit left over: the widest of the normal spreads that its quantiles imply."""
    spread = UNKNOWN_SPREAD
    if profile.residuals is not None:
        left = profile.residuals
        spread = max((left.p75 - left.p25) / 1.349, (left.p95 - left.p05) / 3.290)
    lag = UNKNOWN_LAG if profile.lag1 is None else profile.lag1
    return bounded(spread, lag)


def bounded(spread: float, lag: float) -> Noise:
    """Within what thresholds are known for."""
    return Noise(min(max(spread, SMALLEST_SPREAD), LARGEST_SPREAD), min(max(lag, 0.0), LARGEST_LAG))


class SeenNoise:
    """Measures the noise of lines while nothing is suspected; it can only make the detector more careful.

    A profile may come from windows of forty steps while the log now prints every step, or from a quieter machine.
    """

    __slots__ = ("_residuals", "_since", "noise")

    def __init__(self, stated: Noise) -> None:
        self._residuals: deque[float] = deque(maxlen=SEEN_LINES)
        self._since = 0
        self.noise = stated

    def clear(self) -> None:
        """What comes next does not follow what came before."""
        self._residuals.clear()
        self._since = 0

    def see(self, residual: float, stated: Noise) -> bool:
        """Takes a quiet line; True when the noise was measured anew."""
        self._residuals.append(residual)
        self._since += 1
        if self._since < EVERY_LINES or len(self._residuals) < NEEDED_LINES:
            return False
        self._since = 0
        values = list(self._residuals)
        middle = median(values)
        spread = MAD_TO_SIGMA * median(abs(value - middle) for value in values)
        if spread <= 0.0:
            return False
        edge = 3.0 * spread
        # Winsorised, so that one odd line does not break the correlation.
        kept = [min(max(value - middle, -edge), edge) for value in values]
        squares = sum(value * value for value in kept)
        products = sum(a * b for a, b in pairwise(kept))
        lag = products / squares if squares > 0.0 else 0.0
        self.noise = bounded(max(stated.spread, spread), max(stated.lag, lag))
        return True
