"""Numbers as the operator reads them: three significant digits, thousands as 5.9k, absent as a dash."""

from datetime import datetime, tzinfo

ABSENT = "–"


def figure(value: float | None) -> str:
    """Three significant digits: 0.93, 9.30, 93.0, 930, 5.93k, 59.3k, 593k, 5.93M."""
    if value is None:
        return ABSENT
    size = abs(value)
    sign = "−" if value < 0 else ""
    if size < 999.5:
        if size < 0.005:
            return "0"
        return f"{sign}{size:.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}"
    unit, letter = next((unit, letter) for limit, unit, letter in UNITS if size < limit)
    scaled = size / unit
    return f"{sign}{scaled:.{2 if scaled < 9.995 else 1 if scaled < 99.95 else 0}f}{letter}"


def short(value: float | None) -> str:
    """Two significant digits in at most three cells: 0.9, 2.5, 12, for the ends of a range."""
    if value is None:
        return ABSENT
    return f"{value:.1f}" if value < 9.95 else figure(value) if value >= 999.5 else f"{value:.0f}"


def tokens(value: float | None) -> str:
    """A length in tokens: whole below a thousand, then 5.9k, 59.3k, 593k."""
    if value is None:
        return ABSENT
    if value < 999.5:
        return f"{value:.0f}"
    return f"{value / 1000:.1f}k" if value < 99_950 else figure(value)


UNITS = ((999_500.0, 1e3, "k"), (999.5e6, 1e6, "M"), (float("inf"), 1e9, "G"))
"""Upper limit, divisor and letter of the large units."""


def count(value: float | None) -> str:
    """A whole number as it is below ten thousand, then as `figure`."""
    if value is None:
        return ABSENT
    return f"{value:.0f}" if abs(value) < 9999.5 else figure(value)


def exact(value: int) -> str:
    """A whole number in full with thin grouping: 12 345."""
    return f"{value:,}".replace(",", " ")


def factor(value: float | None) -> str:
    """A factor of a product: ×0.39, ×1.00, ×12.3."""
    return ABSENT if value is None else f"×{figure(value)}"


def milliseconds(seconds: float | None) -> str:
    """A time in milliseconds, without its unit."""
    return figure(None if seconds is None else seconds * 1000)


def percent(ratio: float | None) -> str:
    """A share as a whole percentage; a small one that is not nothing says so (`<1 %`)."""
    if ratio is None:
        return ABSENT
    if 0 < ratio < 0.01:
        return "<1 %"
    return f"{ratio * 100:.0f} %"


def size(octets: int | None) -> str:
    """Bytes in MB or GB (powers of ten)."""
    if octets is None:
        return ABSENT
    return f"{octets / 1e6:.0f} MB" if octets < 1e9 else f"{octets / 1e9:.1f} GB"


def age(seconds: float | None) -> str:
    """How old something is, coarse enough not to flicker: `<1 s`, `12 s`, `3 min`, `2 h 05 min`, `4 d 3 h`."""
    if seconds is None:
        return ABSENT
    if seconds < 1:
        return "<1 s"
    if seconds < 100:
        return f"{int(seconds)} s"
    if seconds < 5400:
        return f"{int(seconds // 60)} min"
    return duration(seconds)


def calm_age(seconds: float | None) -> str:
    """The same in steps of ten seconds, for what may be a while old without being wrong: `<10 s`, `20 s`, `3 min`."""
    if seconds is None or seconds >= 100:
        return age(seconds)
    return "<10 s" if seconds < 10 else f"{int(seconds // 10) * 10} s"


def duration(seconds: float) -> str:
    """A length of time in its two largest units."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 10 and rest:
        return f"{minutes} min {rest:02} s"
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min"
    return f"{hours // 24} d {hours % 24} h"


def clock(at: float, zone: tzinfo, *, seconds: bool = True) -> str:
    """A time of day in the given zone."""
    return datetime.fromtimestamp(at, zone).strftime("%H:%M:%S" if seconds else "%H:%M")


def day_and_clock(at: float, zone: tzinfo) -> str:
    """A date and time in the given zone."""
    return datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d %H:%M:%S")


def zone_name(at: float, zone: tzinfo) -> str:
    """What to call the zone that the times are in: its abbreviation, or its offset."""
    moment = datetime.fromtimestamp(at, zone)
    name = moment.tzname() or ""
    if name.isalpha() and len(name) <= 5:
        return name
    offset = moment.strftime("%z")
    return f"UTC{offset[:3]}:{offset[3:5]}" if offset else "local"
