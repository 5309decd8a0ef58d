"""The whole check of one server, stage by stage: it loads no server that others use, and does not overrun its time."""

from collections.abc import Callable
from functools import partial
from random import Random

from ddwatch.core.arguments import is_unset
from ddwatch.core.expectation.measured import Measured
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.snapshot import Snapshot
from ddwatch.probes import speed
from ddwatch.probes.failures import ProbeFailed
from ddwatch.probes.findings import Finding, Status
from ddwatch.probes.isolation import Disturbed, Isolation
from ddwatch.probes.parsers import parser_findings
from ddwatch.probes.server import Facts, Server
from ddwatch.probes.texts import Lengths

BUDGET_SECONDS = 50.0
"""No further stage is begun after so long, so that the whole stays under a minute."""
CLASSES = ("predictable", "reasoning")
LIVE_TOKENS = 8
PARSER_SECONDS = 8.0
PARSER_TOKENS = (96, 512)
"""Fewest and most tokens of an answer that a parser is judged by."""
WAIT_SECONDS = 1.0
LOOKS = 3
"""Readings of the traffic, a moment apart, before a server counts as idle."""


class Examination:
    """One check under way; `findings` grows as it goes."""

    def __init__(
        self,
        server: Server,
        facts: Facts,
        *,
        profile: Profile | None,
        wall: Callable[[], float],
        wait: Callable[[float], None],
        say: Callable[[str], None],
        assume_idle: bool = False,
        seed: int | None = None,
    ) -> None:
        """Prepares the check.

        Args:
            server: what is checked.
            facts: its setup.
            profile: the model to judge by; None where there is none for this service.
            wall: seconds, for the time budget.
            wait: lets seconds pass.
            say: narrates what is being done.
            assume_idle: goes on where nobody can see whether others use the server.
            seed: of the prompts; None for prompts that nobody has ever seen.
        """
        self._server = server
        self._facts = facts
        self._profile = profile
        self._wall = wall
        self._wait = wait
        self._say = say
        self._assume_idle = assume_idle
        self._end = wall() + BUDGET_SECONDS
        speculative = not is_unset(facts.arguments.get("speculative_algorithm"))
        self._isolation = Isolation(server, Lengths(Random(seed)), speculative=speculative)
        self.findings: list[Finding] = []
        self._first: list[Measured] = []
        """The points of the first context, to compare with after idling."""
        self._points: list[Measured] = []
        self._rate = 0.0
        """Tokens per second, once the warm-up has shown it."""

    def idle(self) -> bool:
        """Whether nobody else uses the server; a finding says what was seen where it is not so, or cannot be told."""
        self._say("looking whether others use the server")
        for look in range(LOOKS):
            traffic = self._server.traffic()
            if traffic is None:
                if self._assume_idle:
                    return True
                self.findings.append(
                    Finding(
                        name="traffic",
                        status="unknown",
                        detail="cannot be seen (neither /v1/loads nor /metrics), so nothing was loaded onto the server",
                        fix="start SGLang with --enable-metrics, or give --assume-idle when it is idle",
                        verdict="blind",
                    )
                )
                return False
            if traffic.busy:
                self.findings.append(busy(traffic.words()))
                return False
            if look + 1 < LOOKS:
                self._wait(WAIT_SECONDS / LOOKS)
        self.findings.append(Finding(name="traffic", status="pass", detail="nobody else uses it"))
        return True

    def active(self, model: str, after_idle: float | None) -> None:
        """Everything that needs requests; raises ProbeFailed when the server does not answer any more."""
        stages: list[tuple[str, Callable[[], None]]] = [("generates", self._generates), ("warm-up", self._warm)]
        stages += [
            (f"decode at {context} tokens", partial(self._decode, context))
            for context in speed.contexts_for(self._server.longest(self._facts))
        ]
        stages.append(("parsers", partial(self._parsers, model)))
        for number, (name, stage) in enumerate(stages, 1):
            if self._wall() > self._end:
                self.findings.append(
                    Finding(name=name, status="unknown", detail="the minute was over before", verdict="blind")
                )
                continue
            self._say(f"[{number}/{len(stages)}] {name}")
            try:
                stage()
            except Disturbed as disturbed:
                self.findings.append(
                    Finding(name=name, status="unknown", detail=disturbed.sentence, fix="check again", verdict="blind")
                )
                traffic = self._server.traffic()
                if traffic is not None and traffic.busy:
                    self.findings.append(busy(traffic.words()))
                    return
            except ProbeFailed as failed:
                if failed.kind != "absent":
                    raise
                self.findings.append(Finding(name=name, status="unknown", detail=failed.sentence))
        if self._first:
            self._accepts()
            if after_idle is not None:
                self._after_idle(after_idle)

    def _generates(self) -> None:
        answer = self._isolation.ask("code", speed.WARM_PROMPT, LIVE_TOKENS)
        measured = f"{answer.completion_tokens} tokens in {answer.seconds:.2f} s"
        if answer.completion_tokens < LIVE_TOKENS:
            self.findings.append(
                Finding(
                    name="generates",
                    status="fail",
                    measured=measured,
                    expected=f"{LIVE_TOKENS} tokens",
                    detail=f"it stopped early (finish {answer.finish or '–'})",
                    fix="look at the server's log for this request",
                    verdict="stalled",
                )
            )
            return
        self.findings.append(Finding(name="generates", status="pass", measured=measured, detail="tokens really come"))

    def _warm(self) -> None:
        warmth = speed.settle(self._isolation)
        self._rate = warmth.rate
        self.findings.append(speed.judge_warmth(warmth))

    def _parsers(self, model: str) -> None:
        # A slow server gets shorter answers to write, so that the check stays under its minute.
        tokens = round(min(max(self._rate * PARSER_SECONDS, PARSER_TOKENS[0]), PARSER_TOKENS[1]))
        self.findings += parser_findings(self._server, model, self._facts.arguments, tokens)

    def _decode(self, context: int) -> None:
        def again(point: Measured) -> bool:
            """A first look that would accuse is looked at twice."""
            return speed.judge_decode([point], self._profile).status in ("fail", "warn") and self._wall() < self._end

        points = speed.measure(self._isolation, context, CLASSES, again)
        self._first = self._first or points
        self._points += points
        self.findings.append(speed.judge_decode(points, self._profile))

    def _accepts(self) -> None:
        for text_class in CLASSES if self._isolation.speculative else ():
            own = [point for point in self._points if point.text_class == text_class]
            found = speed.judge_accept(text_class, own, self._profile) if own else None
            if found is not None:
                self.findings.append(found)

    def _after_idle(self, seconds: float) -> None:
        left = seconds
        while left > 0:
            self._say(f"idling for {left:.0f} s more")
            self._wait(min(left, WAIT_SECONDS))
            left -= WAIT_SECONDS
        name = f"after {seconds:.0f} s idle"
        traffic = self._server.traffic()
        if traffic is not None and traffic.busy:
            self.findings.append(
                Finding(
                    name=name, status="unknown", detail=f"others use the server ({traffic.words()})", verdict="blind"
                )
            )
            return
        self._say("measuring after the pause")
        try:
            points = [self._isolation.point(text_class, self._first[0].context_target) for text_class in CLASSES]
        except Disturbed as disturbed:
            self.findings.append(Finding(name=name, status="unknown", detail=disturbed.sentence, verdict="blind"))
            return
        self.findings.append(speed.judge_after_idle(self._first, points, seconds))


def busy(words: str) -> Finding:
    """Others use the server: it is not loaded further."""
    return Finding(
        name="traffic",
        status="unknown",
        detail=f"others use the server ({words}), so it was not loaded",
        fix="check again when it is idle, or give --sidecar URL for what is seen passively",
        verdict="blind",
    )


def passive(snapshot: Snapshot) -> list[Finding]:
    """What a sidecar has seen of the same service, as findings."""
    statuses: dict[str, Status] = {"page": "fail", "notice": "warn", "ok": "pass", "unknown": "unknown"}
    verdict, now, expected = snapshot.verdict, snapshot.now, snapshot.expected
    step = None if now.step_seconds is None else f"{now.step_seconds * 1e3:.1f} ms/step"
    speed_now = None if now.throughput is None else f"{now.throughput:.1f} tok/s"
    measured = ", ".join(part for part in (speed_now, step) if part) or None
    wanted = None
    if expected is not None:
        wanted = f"{expected.tokens_per_second:.1f} tok/s, {expected.step_seconds * 1e3:.1f} ms/step"
    return [
        Finding(
            name="live verdict",
            status=statuses[verdict.severity],
            measured=measured,
            expected=wanted,
            detail=f"{verdict.name}: {verdict.sentence}",
            fix=verdict.next_steps[0] if verdict.next_steps else None,
            verdict=None if verdict.severity == "ok" else verdict.name,
        )
    ]
