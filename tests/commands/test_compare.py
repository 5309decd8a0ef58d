"""`ddwatch compare`: what a restart in a log changed at equal load, which restart is meant, and what it refuses."""

import re
from collections.abc import Callable, Iterable
from datetime import timezone
from pathlib import Path
from typing import Any

import pytest

from ddwatch.core.exits import Exit
from ddwatch.core.grammar import LogReader
from ddwatch.demo.scenarios import generate
from tests.commands.documents import held_against
from tests.commands.said import Said, said
from tests.sidecar.exports.recordings import Watch, begun

BEGIN = 1_777_636_800.0
RESTART = "2026-05-01 12:12:49"
DECODE = re.compile(
    r"(?P<head>.*Decode batch, #running-req: (?P<batch>\d+), .*accept len: (?P<accept>[\d.]+), .*"
    r"gen throughput \(token/s\): )(?P<rate>[\d.]+)(?P<rest>.*)"
)
LOGS = Path(__file__).parents[1] / "golden" / "logs"


def told(name: str, seconds: float, slow: Callable[[float], float] | None = None, after: float = 0.0) -> Iterable[str]:
    """The log of a scenario; from `after` seconds on every step takes as long as `slow` says."""
    for at, line in generate(name, 1, BEGIN, seconds):
        found = DECODE.match(line) if slow is not None and at - BEGIN > after else None
        if found is not None and slow is not None:
            tokens = int(found["batch"]) * float(found["accept"])
            line = f"{found['head']}{tokens / slow(tokens / float(found['rate'])):.2f}{found['rest']}"
        yield line


def written(path: Path, lines: Iterable[str]) -> str:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def founding(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("logs") / "founding.log", told("founding", 960))


@pytest.fixture(scope="module")
def restarts(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("logs") / "restarts.log", told("restart", 935))


def judged(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[Said, dict[str, Any]]:
    found = said(["compare", *words, "--json", "--tz", "UTC"], capsys)
    return found, held_against("compare.json", found.out)


def test_the_founding_incident_is_one_table_and_one_sentence(founding: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(["compare", founding, "--tz", "UTC"], capsys)

    assert (found.code, found.err) == (Exit.NOTICE, "")
    lines = found.out.splitlines()
    assert lines[0] == f"restart 1 of 1 at {RESTART}"
    assert lines[1:3] == ["  +reasoning_parser kimi_k2", "  +tool_call_parser kimi_k2"]
    assert re.fullmatch(
        r"the restart changed step time by [+-]0\.\d % \(-\d\.\d … \+\d\.\d %\) at equal batch and context: the new "
        r"flags are not the cause; the fall from 13\d to 3\d\.\d tok/s is accept length ×0\.39 and context ×0\.6\d",
        lines[-1],
    )
    assert all(len(line) <= 79 for line in lines[:-1])


def test_the_founding_incident_as_a_document(founding: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, document = judged([founding], capsys)

    assert found.code == Exit.NOTICE
    assert (document["outcome"], document["restart"], document["cut"]) == ("accept-fell", 1, "restart")
    assert document["at"] == "2026-05-01T12:12:49.000+00:00"
    ratio = document["step_seconds"]["ratio"]
    assert ratio["low"] < 1.0 < ratio["high"] and ratio["high"] - ratio["low"] < 0.03
    factors, before, after = document["factors"], document["before"], document["after"]
    assert factors["accept_length"] * factors["context"] * factors["batch"] * factors["step_time"] == pytest.approx(
        after["tokens_per_second"] / before["tokens_per_second"], rel=1e-9
    )
    assert factors["ratio"] < 0.27


@pytest.mark.parametrize(
    ("slow", "low", "high"), [(lambda step: step + 0.031, 29, 33), (lambda step: step * 1.15, 6.5, 9.5)]
)
def test_a_restart_that_slows_the_steps_exits_with_2(
    slow: Callable[[float], float], low: float, high: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written(tmp_path / "slow.log", told("founding", 960, slow, after=770))
    found, document = judged([log], capsys)

    assert found.code == Exit.PAGE
    assert document["outcome"] == "slower"
    difference = document["step_seconds"]["difference"]
    assert low / 1e3 < difference["value"] < high / 1e3
    assert difference["low"] > 0.0
    assert "ms longer, by the new flags" in document["sentence"]


def test_of_several_restarts_the_last_is_compared_and_all_are_listed(
    restarts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(["compare", restarts, "--tz", "UTC"], capsys)

    assert found.code == Exit.OK
    rows = found.err.splitlines()
    assert rows[0] == "ddwatch compare: 3 restarts are in there; --restart N chooses one"
    assert [row[:4] for row in rows[1:]] == ["   1", "   2", " * 3"]
    assert rows[-1].startswith(" * 3  2026-05-01 12:14:10 UTC  980 and ")
    assert "attention_backend flashinfer → trtllm_mla" in rows[1]
    assert found.out.startswith("restart 3 of 3 at ")


@pytest.mark.parametrize(("wanted", "number"), [("1", 1), ("2", 2), ("-1", 3), ("-3", 1)])
def test_a_restart_can_be_chosen(wanted: str, number: int, restarts: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, document = judged([restarts, f"--restart={wanted}"], capsys)

    assert (found.code, found.err, document["restart"]) == (Exit.OK, "", number)
    assert [one["number"] for one in document["restarts"]] == [1, 2, 3]
    assert document["outcome"] == "no-change"


@pytest.mark.parametrize("wanted", ["0", "4", "-4"])
def test_a_restart_that_is_not_there_is_refused(wanted: str, restarts: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(["compare", restarts, f"--restart={wanted}"], capsys)

    assert (found.code, found.out) == (Exit.USAGE, "")
    assert found.err == f"ddwatch compare: 3 restarts are in there: --restart {wanted} is none of them\n"


@pytest.mark.parametrize(
    "words", ["12:11:40", "2026-05-01 12:11:40", "2026-05-01T12:11:40Z", "2026-05-01T14:11:40+02:00"]
)
def test_a_moment_cuts_where_no_restart_was(words: str, founding: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, document = judged([founding, "--at", words], capsys)

    assert found.code == Exit.OK
    assert (document["cut"], document["at"], document["restart"]) == ("moment", "2026-05-01T12:11:40.000+00:00", None)
    assert document["before"]["to"] < document["at"] <= document["after"]["from"] < document["after"]["to"]
    assert document["sentence"].startswith("what happened at 2026-05-01 12:11:40 changed step time by ")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("half past", "cannot read --at 'half past'; write HH:MM:SS or 'YYYY-MM-DD HH:MM:SS'"),
        ("2026-05-02 12:00", "nothing in there is as late as 2026-05-02 12:00"),
    ],
)
def test_a_moment_that_is_none_is_refused(
    words: str, sentence: str, founding: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(["compare", founding, "--at", words, "--tz", "UTC"], capsys)

    assert (found.code, found.out, found.err) == (Exit.USAGE, "", f"ddwatch compare: {sentence}\n")


def test_a_log_without_a_restart_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(["compare", str(LOGS / "real-0.5.23-standalone.log")], capsys)

    assert (found.code, found.out) == (Exit.UNJUDGED, "")
    assert found.err == ("ddwatch compare: no restart is in there; --at TIME compares before and after a moment\n")


def test_nothing_in_common_is_told_and_exits_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def line(second: int, tokens: int, rate: float) -> str:
        return (
            f"[2026-05-01 12:{second // 60:02}:{second % 60:02} TP0] Decode batch, #running-req: 1, #token: {tokens}, "
            f"token usage: 0.01, accept len: 4.00, accept rate: 0.20, cuda graph: True, "
            f"gen throughput (token/s): {rate:.2f}, #queue-req: 0"
        )

    start = "[2026-05-01 12:10:00] server_args={'model_path': '/models/K', 'port': 30000}"
    log = written(
        tmp_path / "apart.log",
        [
            *(line(second, 500 + second, 100.0) for second in range(100)),
            start,
            *(line(610 + second, 9000 + second, 20.0) for second in range(100)),
        ],
    )
    found, document = judged([log], capsys)

    assert found.code == Exit.UNJUDGED
    assert document["step_seconds"] is None and document["factors"] is None
    assert document["reason"] == "no batch and context was seen often enough on both sides"
    assert document["sentence"].startswith("the restart cannot be judged: ")
    assert "(before: batch 1 at 501 … 599 tokens in total; after: batch 1 at 9" in document["sentence"]
    assert document["changes"] is None
    shown = said(["compare", log, "--tz", "UTC"], capsys)
    assert shown.code == Exit.UNJUDGED and "  the arguments of one side were not seen" in shown.out


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["nowhere.log"], Exit.INPUT, "there is no file nowhere.log"),
        (["nowhere.log", "--tz", "Mars"], Exit.USAGE, "ddwatch compare: no time zone 'Mars'"),
        (["nowhere.log", "--restart", "1", "--at", "12:00"], Exit.USAGE, "not allowed with argument"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], code: Exit, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(["compare", *words], capsys)

    assert (found.code, found.out) == (code, "")
    assert sentence in found.err and found.err.count("\n") == 1


def test_a_text_without_decode_lines_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(["compare", written(tmp_path / "other.log", ["hello", "there"])], capsys)

    assert found.code == Exit.INPUT
    assert found.err == "ddwatch compare: no decode line in 2 lines; is this the scheduler's log?\n"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a sidecar recorded of the founding incident."""
    folder = tmp_path_factory.mktemp("recordings")
    watch = Watch(folder, now=BEGIN)
    watch.start()
    reader = LogReader(timezone.utc, BEGIN)
    for number, (at, line) in enumerate(generate("founding", 1, BEGIN, 960.0), 1):
        watch.now = max(watch.now, at)
        watch.see(list(reader.read(line.encode(), at, number)))
    watch.end()
    return folder / "service.sqlite"


def test_a_recording_says_the_same_as_its_log(
    recording: Path, founding: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, document = judged([str(recording)], capsys)
    _, by_log = judged([founding], capsys)

    assert (found.code, found.err) == (Exit.NOTICE, "")
    assert document["changes"] == by_log["changes"] == ["+reasoning_parser kimi_k2", "+tool_call_parser kimi_k2"]
    assert document["outcome"] == by_log["outcome"]
    for side in ("before", "after"):
        assert document[side]["clean"] == pytest.approx(by_log[side]["clean"], rel=0.01)
        assert document[side]["tokens_per_second"] == pytest.approx(by_log[side]["tokens_per_second"], rel=0.01)
    assert document["step_seconds"]["ratio"]["value"] == pytest.approx(
        by_log["step_seconds"]["ratio"]["value"], abs=0.01
    )


def test_a_moment_cuts_a_recording_too(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, document = judged([str(recording), "--at", "2026-05-01 12:11:40"], capsys)

    assert (found.code, document["cut"], document["outcome"]) == (Exit.OK, "moment", "no-change")


def test_an_empty_recording_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with begun(tmp_path):
        found = said(["compare", str(tmp_path / "service.sqlite")], capsys)

    assert (found.code, found.out) == (Exit.INPUT, "")
    assert found.err.startswith("ddwatch compare: no") and found.err.count("\n") == 1
