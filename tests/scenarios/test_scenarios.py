"""Every story in this folder: the verdicts and events that it lists happen, and no others."""

from collections.abc import Iterator
from math import isclose
from pathlib import Path

import msgspec
import pytest

from ddwatch.core.exits import VERDICT_EXITS, Exit
from ddwatch.core.snapshot import Verdict
from ddwatch.demo.scenarios import SCENARIOS
from tests.scenarios.runner import Change, Played, Story, read_story

SLACK = 1.01
"""Seconds by which an expectation may miss: the clock asks once a second."""
STORIES = sorted(Path(__file__).parent.glob("*.toml"))


def told(found: list[tuple[float, str]]) -> str:
    return ", ".join(f"{at:g} s {what}" for at, what in found)


def differences(story: Story, played: Played) -> list[str]:
    """Where a story and what came out of it differ; empty when it went as told."""
    wrong: list[str] = []
    wanted = [(change.at, change.verdict) for change in story.verdict]
    pairs = list(zip(wanted, played.verdicts, strict=False))
    slack = [change.within for change in story.verdict]
    alike = (w[1] == s[1] and abs(w[0] - s[0]) <= within for (w, s), within in zip(pairs, slack, strict=False))
    if len(wanted) != len(played.verdicts) or not all(alike):
        wrong.append(f"verdicts: {told(list(played.verdicts))}; listed: {told(list(wanted))}")
    for change, verdict in zip(story.verdict, played.words, strict=False):
        wrong += unsaid(change, verdict, played.start)
    left = list(played.events)
    for happening in story.event:
        near = [e for e in left if e.kind == happening.kind and abs(e.at - played.start - happening.at) <= SLACK]
        match = [e for e in near if happening.text in e.text and e.count == happening.count]
        if match:
            left.remove(match[0])
        else:
            wrong.append(f"no {happening.kind} event {happening.text!r} x{happening.count} at {happening.at:g} s")
    wrong += [f"unlisted event at {e.at - played.start:g} s: {e.kind} x{e.count} {e.text}" for e in left]
    for flagged in story.sample:
        later = [s for s in played.samples if s.at >= played.start + flagged.at - 1e-6 and s.dp_rank == flagged.dp_rank]
        if not later or later[0].flags != flagged.flags:
            wrong.append(f"at {flagged.at:g} s the flags are {later[0].flags if later else 'no sample'}")
    for shown in story.shown:
        for name, seen in played.shown[shown.at].items():
            given = getattr(shown, name)
            close = isinstance(given, float) and isinstance(seen, float) and isclose(given, seen, rel_tol=0.02)
            close = close or (isinstance(given, str) and isinstance(seen, str) and given in seen)
            if given is not None and given != seen and not close:
                wrong.append(f"at {shown.at:g} s {name} is {seen!r}, not {given!r}")
    if story.alerts is not None and story.alerts != played.alerts:
        wrong.append(f"incidents {played.alerts}, not {story.alerts}")
    clean = sum(sample.clean for sample in played.samples)
    if story.samples is not None and story.samples != len(played.samples):
        wrong.append(f"{len(played.samples)} samples, not {story.samples}")
    if story.clean is not None and story.clean != clean:
        wrong.append(f"{clean} clean samples, not {story.clean}")
    return wrong


def unsaid(change: Change, verdict: Verdict, start: float) -> Iterator[str]:
    """What a verdict should say and does not."""
    texts = (
        (change.says, verdict.sentence),
        (change.cause, verdict.cause or ""),
        (change.next_step, "; ".join(verdict.next_steps)),
    )
    for wanted, said in texts:
        if wanted not in said:
            yield f"{verdict.name} at {change.at:g} s says {said!r}, not {wanted!r}"
    if change.since is not None and abs(verdict.since - start - change.since) > change.within:
        yield f"{verdict.name} at {change.at:g} s holds since {verdict.since - start:.1f} s"


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_story_goes_as_told(path: Path) -> None:
    story = read_story(path)
    found = differences(story, Played(story))
    assert not found, "\n".join([story.story, *found])


@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS if scenario.pages is None])
def test_a_healthy_simulated_service_never_pages(name: str) -> None:
    """Its step times are the truth by construction, so every page would be a false alarm; `founding` above all."""
    seconds = 960
    told_of = {"story": name, "seconds": seconds, "verdict": []}
    story = msgspec.convert({**told_of, "log": [{"demo": name, "until": seconds}]}, Story)
    verdicts = {verdict for _, verdict in Played(story).verdicts}
    assert not verdicts & {name for name, code in VERDICT_EXITS.items() if code == Exit.PAGE}


def test_an_unknown_key_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text('story = "x"\nseconds = 1\nlog = []\nverdict = []\nverdicts = []\n', encoding="utf-8")
    with pytest.raises(msgspec.ValidationError, match="verdicts"):
        read_story(path)


@pytest.mark.parametrize("listed", [[], [{"at": 0, "verdict": "idle"}], [{"at": 40, "verdict": "blind"}]])
def test_an_unlisted_verdict_fails(listed: list[dict[str, object]]) -> None:
    story = msgspec.convert({"story": "silence", "seconds": 5, "log": [], "verdict": listed}, Story)
    assert differences(story, Played(story))


def test_a_wrong_figure_fails() -> None:
    line = "Decode batch, #running-req: 1, #token: 50, gen throughput (token/s): 10.00, #queue-req: 0"
    told_of = {"story": "x", "seconds": 2, "verdict": [{"at": 0, "verdict": "learning"}], "log": [{"line": line}]}
    right = msgspec.convert({**told_of, "shown": [{"at": 1, "throughput": 10.1, "batch": 1}]}, Story)
    wrong = msgspec.convert({**told_of, "shown": [{"at": 1, "throughput": 11.0, "batch": 2}]}, Story)
    assert differences(right, Played(right)) == []
    assert differences(wrong, Played(wrong)) == [
        "at 1 s throughput is 10.0, not 11.0",
        "at 1 s batch is 1, not 2",
    ]


def test_an_unlisted_event_and_a_wrong_flag_fail() -> None:
    line = "Decode batch, #running-req: 1, #token: 50, gen throughput (token/s): 1.00, #queue-req: 0"
    told_of = {"story": "gap", "seconds": 2, "verdict": [], "log": [{"gap": "lost"}, {"at": 1, "line": line}]}
    story = msgspec.convert({**told_of, "sample": [{"at": 1, "flags": ["idle"]}]}, Story)
    found = "\n".join(differences(story, Played(story)))
    assert "unlisted event at 0 s: gap" in found
    assert "the flags are ('first'" in found
