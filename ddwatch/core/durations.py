"""Says a stretch of time in words, the same way everywhere, and reads one that was typed."""

import re

LONGEST_SECONDS = 366 * 86400.0
TYPED = re.compile(r"(\d+(?:\.\d+)?)(s|min|m|h|d)")
UNITS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_of(text: str) -> float:
    """`90s`, `15m`, `1h30m`, `2d` as seconds; raises ValueError with a phrase for anything else."""
    words = text.strip().lower().replace(" ", "")
    found = TYPED.findall(words)
    if not found or "".join(number + unit for number, unit in found) != words:
        raise ValueError("must be a time like 90s, 15m, 4h or 1d")
    total = sum(float(number) * UNITS[unit] for number, unit in found)
    if not 0 < total <= LONGEST_SECONDS:
        raise ValueError("must be more than nothing and at most a year")
    return total


def in_words(seconds: float) -> str:
    """`0.4 s`, `42 s`, `9 min 58 s`, `3 h 05 min`, `2 d 4 h`."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"
