"""Draws the step times of a calibration as an SVG: the points, the curve through them, and its band."""

from collections.abc import Sequence
from math import log2

from ddwatch.core.expectation.measured import Measured
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.wording import short

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 50, 50
COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#475569")


def escaped(text: str) -> str:
    """Text that may stand in an SVG."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def nice_step(highest: float) -> float:
    """A round distance between grid lines, four to eight of them up to the highest value."""
    step = 1.0
    while step * 8 < highest:
        step *= 2.5 if str(step)[0] == "2" else 2.0
    while step * 4 > highest:
        step /= 2.0
    return step


def drawing(profile: Profile, points: Sequence[Measured]) -> str:
    """The picture: context of one request (octaves) against step time in milliseconds (from zero)."""
    contexts = [point.context_tokens for point in points]
    low, high = log2(min(contexts)), log2(max(contexts))
    span = max(high - low, 1e-9)
    highest = 1.05e3 * max(point.step_seconds for point in points)

    def x(context: float) -> float:
        return LEFT + (log2(context) - low) / span * (WIDTH - LEFT - RIGHT)

    def y(milliseconds: float) -> float:
        return HEIGHT - BOTTOM - milliseconds / highest * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{escaped(profile.name)}: time of a step by context</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 10}">context of one request, tokens</text>',
        f'<text x="{LEFT}" y="38">milliseconds</text>',
    ]
    grid = nice_step(highest)
    for index in range(int(highest / grid) + 1):
        height = y(index * grid)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height:.1f}" y2="{height:.1f}" stroke="#e5e7eb"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{index * grid:g}</text>')
    for target in sorted({point.context_target for point in points}):
        if log2(target) == int(log2(target)):
            middle = x(min(max(target, min(contexts)), max(contexts)))
            parts.append(
                f'<text x="{middle:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{short(target)}</text>'
            )
    band = profile.band()
    samples = [2 ** (low + span * i / 120) for i in range(121)]
    for index, batch in enumerate(sorted({point.batch for point in points})):
        colour = COLOURS[index % len(COLOURS)]
        own = [point for point in points if point.batch == batch]
        first, last = min(point.context_tokens for point in own), max(point.context_tokens for point in own)
        line = [(c, 1e3 * profile.step_time.seconds(batch, batch * c)) for c in samples if first <= c <= last * 1.001]
        upper = [f"{x(c):.1f},{y(min(value / band.low, highest)):.1f}" for c, value in line]
        lower = [f"{x(c):.1f},{y(value / band.high):.1f}" for c, value in reversed(line)]
        parts.append(f'<polygon points="{" ".join(upper + lower)}" fill="{colour}" opacity="0.15"/>')
        drawn = " ".join(f"{x(c):.1f},{y(value):.1f}" for c, value in line)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{x(point.context_tokens):.1f}" cy="{y(1e3 * point.step_seconds):.1f}" r="2.5" '
            f'fill="{colour}"/>'
            for point in own
        ]
        parts.append(
            f'<text x="{LEFT + 12}" y="{TOP + 14 + 16 * index}" fill="{colour}">batch {batch}, {len(own)} points</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
