"""One reading in plain text: every number with its unit, where it comes from and how old it is."""

import sys
import time
from collections.abc import Callable, Iterator

import httpx

from ddwatch.core import wire
from ddwatch.core.exits import VERDICT_EXITS, CommandFailed, Exit
from ddwatch.core.expectation.wording import readable
from ddwatch.core.snapshot import Now, Snapshot, SourceView
from ddwatch.feeds.live import CONNECT_SECONDS, Refused, check, sentence
from ddwatch.widgets.alert_words import quiet_words
from ddwatch.widgets.factor_row import caveats, model_words, parts_of
from ddwatch.widgets.figures import age, count, duration, exact, factor, figure, percent, tokens
from ddwatch.widgets.gpu_words import gravity, is_odd, normal_words, odd_words
from ddwatch.widgets.rows import clean
from ddwatch.widgets.server_line import algorithm_text, model_name, parallel_text
from ddwatch.widgets.zones import LocalZone

FIRST_DATA_SECONDS = 10.0
"""How long one reading waits for the first data."""
POLL_SECONDS = 0.25


def fetch(url: str, token: str | None) -> tuple[Snapshot, bytes]:
    """The newest snapshot and its document; raises CommandFailed with one sentence."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    base = url.rstrip("/")
    try:
        response = httpx.get(f"{base}/v1/snapshot", headers=headers, timeout=CONNECT_SECONDS, trust_env=False)
        check(response)
        return wire.decode_snapshot(response.content), response.content
    except (httpx.HTTPError, httpx.InvalidURL, Refused, wire.WireError, OSError) as error:
        raise CommandFailed(f"ddwatch: {sentence(base, error)}") from error


def settled(before: Snapshot | None, now: Snapshot) -> bool:
    """Whether the sources have told what they had: something read, and either fresh or no more lines coming."""
    witnesses = [source for source in now.sources if source.witness]
    if not witnesses or any(source.last_at is None for source in witnesses):
        return False
    if before is None:
        return False
    return [source.lines for source in before.sources] == [source.lines for source in now.sources]


def first_reading(url: str, token: str | None, last_words: Callable[[], str | None]) -> tuple[Snapshot, bytes]:
    """A snapshot with data in it, or the newest one after FIRST_DATA_SECONDS."""
    deadline = time.monotonic() + FIRST_DATA_SECONDS
    before: Snapshot | None = None
    while True:
        snapshot, document = fetch(url, token)
        words = last_words()
        if words is not None:
            raise CommandFailed(f"ddwatch: {words}")
        fresh = snapshot.now.at is not None and snapshot.at - snapshot.now.at < 5.0
        if settled(before, snapshot) or fresh or time.monotonic() > deadline:
            return snapshot, document
        before = snapshot
        time.sleep(POLL_SECONDS)


def number_lines(snapshot: Snapshot) -> Iterator[str]:
    """The present figures."""
    now: Now = snapshot.now
    if now.at is None:
        yield "no reading yet: no decode line has been seen"
        return
    origin = f"from {now.provenance or 'log'}, {age(max(0.0, snapshot.at - now.at))} ago"
    yield f"throughput: {figure(now.throughput)} tokens per second ({origin})"
    if snapshot.expected is not None:
        expected = snapshot.expected
        extra = ", outside its evidence" if expected.extrapolated else ""
        yield (
            f"expected: {figure(expected.tokens_per_second)} tokens per second, between {figure(expected.low)} and "
            f"{figure(expected.high)} (profile {clean(expected.profile)}{extra})"
        )
        yield f"expected step time: {figure(expected.step_seconds * 1000)} ms"
    if snapshot.ratio is not None:
        yield f"ratio: {snapshot.ratio:.2f} measured over expected"
    yield from factor_lines(snapshot)
    yield f"accept length: {figure(now.accept_length)} tokens per request and step"
    milliseconds = None if now.step_seconds is None else now.step_seconds * 1000
    yield f"step time: {figure(milliseconds)} ms (span {now.span})"
    yield f"batch: {count(now.batch)} running requests, {count(now.queued)} waiting"
    yield (
        f"context: {tokens(now.context_tokens)} tokens per request, {tokens(now.total_context_tokens)} in total, "
        f"{percent(now.token_usage)} of the KV pool in use"
    )
    if now.flags:
        yield f"not judged: this reading is contaminated ({', '.join(now.flags)})"
    window = snapshot.window
    if window.samples:
        yield (
            f"last {duration(window.seconds)}: median {figure(window.throughput_median)} and least "
            f"{figure(window.throughput_min)} tokens per second, {exact(window.clean)} of {exact(window.samples)} "
            "samples clean"
        )


def factor_lines(snapshot: Snapshot) -> Iterator[str]:
    """Why the rate is not the remembered one."""
    reference = snapshot.reference
    if reference is None:
        return
    remembered = clean(reference.label) + (", inferred" if reference.inferred else "")
    yield f"remembered: {figure(reference.tokens_per_second)} tokens per second ({remembered})"
    parts = parts_of(snapshot)
    if parts:
        words = ", ".join(
            f"{name} {factor(value)}" + (f" ({change})" if change else "") for name, value, change in parts
        )
        yield f"factors from remembered to measured: {words}"
    else:
        yield "factors: not split, the newest sample is mixed or missing"


def model_lines(snapshot: Snapshot) -> Iterator[str]:
    """What the expectation rests on, with its caveats and the differences from its setup."""
    model = snapshot.model
    if model is None:
        return
    yield f"model: {'; '.join((*caveats(snapshot), *model_words(model)))}"
    if model.accept_low is not None and model.accept_high is not None:
        yield (
            f"accept length learned at this context: {figure(model.accept_low)} to {figure(model.accept_high)} "
            f"(10 to 90 %), median {figure(model.accept_median)}"
        )
    for difference in model.differences:
        yield f"differs from the profile: {clean(difference)}"


def hardware_lines(snapshot: Snapshot) -> Iterator[str]:
    """The cards that need somebody in one line, and what is wrong with the host."""
    gpus = snapshot.gpus
    odd = sorted((gpu for gpu in gpus if is_odd(gpu)), key=gravity)
    if odd:
        yield f"GPUs: {'; '.join([normal_words(gpus), *(odd_words(gpu, gpus) for gpu in odd)])}"
    if snapshot.host is not None:
        yield from (f"host: {clean(found.sentence)}" for found in snapshot.host.findings if found.severity == "notice")


def source_line(source: SourceView, at: float) -> str:
    """One source with its age and losses."""
    heard = "never heard" if source.last_at is None else f"last heard {age(max(0.0, at - source.last_at))} ago"
    text = f"source {clean(source.name)}: {source.state}, {heard}, {exact(source.lines)} lines"
    text += f", {exact(source.unread)} unread, {exact(source.gaps)} gaps, {exact(source.rotations)} rotations"
    return f"{text}; {clean(source.detail)}" if source.detail else text


def reading(snapshot: Snapshot) -> str:
    """The whole reading, one fact per line."""
    verdict = snapshot.verdict
    lines = ["SIMULATED: this is not a real service"] if snapshot.simulated else []
    lines.append(f"{verdict.name.replace('-', ' ')}: {clean(verdict.sentence)}")
    quiet = quiet_words(snapshot, LocalZone())
    if quiet:
        lines.append(f"alerts: {quiet}")
    if verdict.cause:
        lines.append(f"likely cause: {clean(verdict.cause)}")
    lines += [f"next: {clean(step)}" for step in verdict.next_steps]
    lines += [f"also: {note.name.replace('-', ' ')}: {clean(note.sentence)}" for note in snapshot.notes]
    lines += number_lines(snapshot)
    lines += model_lines(snapshot)
    lines += hardware_lines(snapshot)
    server = snapshot.server
    named = [model_name(server.model), algorithm_text(server), parallel_text(server), clean(server.address or "")]
    words = ", ".join(word for word in named if word) or "not named yet"
    up = "" if server.ready_at is None else f", up {duration(snapshot.at - server.ready_at)}"
    lines.append(f"server: {words}; {server.state}{up if server.state == 'ready' else ''}")
    lines += [source_line(source, snapshot.at) for source in snapshot.sources]
    if not snapshot.stamped:
        lines.append("times: estimated, the log has none")
    return "\n".join(lines) + "\n"


def once(url: str, token: str | None, *, as_json: bool, last_words: Callable[[], str | None] = lambda: None) -> Exit:
    """Prints one reading and returns the verdict's exit code."""
    snapshot, document = first_reading(url, token, last_words)
    text = document.decode("utf-8") + "\n" if as_json else readable(reading(snapshot), sys.stdout.encoding)
    sys.stdout.write(text)
    return VERDICT_EXITS[snapshot.verdict.name]
