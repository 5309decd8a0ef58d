"""Figures as the operator reads them: three digits, thousands as 5.99k, and plain signs on plain terminals."""

SIGNS = str.maketrans(
    {"×": "x", "…": "-", "·": ",", "−": "-", "→": ">", "✓": "+", "✗": "!", "–": "-", "○": "o", "‖": "="}
)


def short(tokens: float) -> str:
    """A number of tokens: 512, 5.99k, 128k."""
    if tokens < 999.5:
        return f"{tokens:.0f}"
    for limit, unit in ((1e6, "k"), (1e9, "M")):
        if tokens < limit * 0.9995:
            return f"{_three(tokens / limit * 1000.0)}{unit}"
    return f"{tokens:.3g}"


def _three(value: float) -> str:
    """Three digits without an exponent and without trailing zeros behind the point."""
    if value >= 99.95:
        return f"{value:.0f}"
    text = f"{value:.2f}" if value < 9.995 else f"{value:.1f}"
    return text.rstrip("0").rstrip(".")


def rate(tokens_per_second: float) -> str:
    """Tokens per second: 4.21, 32.2, 138, 12400."""
    if tokens_per_second >= 99.95:
        return f"{tokens_per_second:.0f}"
    return f"{tokens_per_second:.1f}" if tokens_per_second >= 9.995 else f"{tokens_per_second:.2f}"


def milliseconds(seconds: float) -> str:
    """A step time in ms: 9.41, 53.3, 104."""
    return rate(seconds * 1e3)


def duration(seconds: float) -> str:
    """A time that a person waits: 4.2 s, 98.8 s, 12 min 5 s."""
    if seconds < 119.95:
        return f"{seconds:.1f} s"
    if seconds < 7200.0:
        whole = round(seconds)
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60.0)
    return f"{minutes // 60} h {minutes % 60} min"


def factor(value: float | None) -> str:
    """A factor: ×0.39; a dash where it is not known."""
    if value is None:
        return "–"
    return f"×{value:.2f}" if 0.005 <= value < 99.5 else f"×{value:.2g}"


def range_of(low: float, high: float) -> str:
    """Two numbers of tokens, or one when they read the same."""
    first, last = short(low), short(high)
    return first if first == last else f"{first} … {last}"


def readable(text: str, encoding: str | None) -> str:
    """The text with signs that this encoding can write."""
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return text.translate(SIGNS).encode("ascii", "replace").decode("ascii")
    return text
