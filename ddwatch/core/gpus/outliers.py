"""Finds the card that is slower than its peers: robustly, and by more than a tenth, so that noise names none.

The rule of Megatron's straggler check (more than one deviation and more than 10 %) with median and median absolute
deviation in place of mean and standard deviation, which one straggler of eight would pull towards itself.
"""

from collections.abc import Mapping
from statistics import median

DISTANCE = 0.10
DEVIATIONS = 3.0
TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation, for a normal distribution."""
PEERS = 2
"""Others that a card is compared with at least; of two cards nobody can say which one is odd."""


def low(values: Mapping[str, float]) -> dict[str, float]:
    """The members that are lower than the others, each with the median of the others.

    Args:
        values: one value per member.
    """
    found: dict[str, float] = {}
    for name, value in values.items():
        others = [other for key, other in values.items() if key != name]
        if len(others) < PEERS:
            continue
        middle = median(others)
        spread = TO_SIGMA * median(abs(other - middle) for other in others)
        if value < (1.0 - DISTANCE) * middle and value < middle - DEVIATIONS * spread:
            found[name] = middle
    return found
