"""Request records are followed through the hours: nothing twice, nothing lost, long lines bounded."""

import asyncio
import json
from pathlib import Path

import pytest
from ddwatch_sidecar.sources.requests import LINE_BYTES, PAST_BYTES, Lines, Reading, RequestRecords

from ddwatch.core.records import Gap, LinesSeen, RequestDone, SourceFault, SourceUp, Unread
from tests.fakes.clock import START


def poll(source: RequestRecords, now: float = START) -> list[Reading]:
    return asyncio.run(source.poll(now))


def requests(records: list[Reading]) -> list[int | None]:
    return [record.completion_tokens for record in records if isinstance(record, RequestDone)]


def faults(records: list[Reading]) -> list[tuple[str, bool]]:
    return [(record.reason, record.waiting) for record in records if isinstance(record, SourceFault)]


def line(tokens: int, *, text: str = "hello", finished: float | None = None) -> str:
    numbers: dict[str, object] = {"prompt_tokens": 5, "completion_tokens": tokens, "e2e_latency": 1.0}
    if finished is not None:
        numbers["response_sent_to_client_ts"] = finished
    return json.dumps({"request_parameters": json.dumps({"text": text}), "id": "r", **numbers}) + "\n"


def hour(folder: Path, name: str = "20261201_12") -> Path:
    return folder / f"sglang-request-metrics-{name}.log"


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.fixture
def source(tmp_path: Path) -> RequestRecords:
    return RequestRecords(tmp_path)


def test_what_is_appended_is_read_once_and_in_order(tmp_path: Path, source: RequestRecords) -> None:
    assert faults(poll(source)) == [(f"no request was over yet: {tmp_path} holds no record file", True)]
    assert poll(source) == []
    append(hour(tmp_path), line(1) + line(2))
    found = poll(source, START + 1)
    assert isinstance(found[0], SourceUp)
    assert [record for record in found if isinstance(record, LinesSeen)] == [
        LinesSeen(at=START + 1, source="requests", lines=2)
    ]
    append(hour(tmp_path), line(3)[:20])
    assert requests(poll(source, START + 2)) == []
    append(hour(tmp_path), line(3)[20:])
    assert requests(poll(source, START + 3)) == [3]
    asyncio.run(source.close())


def test_the_next_hour_is_followed_and_a_late_line_of_the_old_one_is_not_lost(
    tmp_path: Path, source: RequestRecords
) -> None:
    append(hour(tmp_path), line(1, finished=START - 5))
    assert requests(poll(source)) == [1]
    append(hour(tmp_path), line(2))
    append(hour(tmp_path, "20261201_13"), line(3))
    append(hour(tmp_path, "20261201_14"), line(4))
    append(tmp_path / "sglang-request-metrics-notes.log", line(99))
    assert requests(poll(source)) == [2, 3, 4]
    append(hour(tmp_path, "20261201_14"), line(5))
    assert requests(poll(source)) == [5]
    asyncio.run(source.close())


def test_the_past_is_placed_by_its_own_times_and_only_its_newest_part_is_read(
    tmp_path: Path, source: RequestRecords
) -> None:
    append(hour(tmp_path, "20261201_11"), line(1, finished=START - 4000))
    append(hour(tmp_path), line(2, text="x" * PAST_BYTES, finished=START - 60))
    append(hour(tmp_path), line(3, finished=START - 30) + line(4))
    found = [record for record in poll(source) if isinstance(record, RequestDone)]
    assert [(record.completion_tokens, record.at, record.line) for record in found] == [(3, START - 30, None)]
    append(hour(tmp_path), line(5))
    (live,) = [record for record in poll(source, START + 1) if isinstance(record, RequestDone)]
    assert (live.completion_tokens, live.at) == (5, START + 1)
    asyncio.run(source.close())


def test_a_request_with_a_long_text_is_read_with_bounded_memory(tmp_path: Path, source: RequestRecords) -> None:
    poll(source)
    append(hour(tmp_path), line(1, text='"quoted" \\' * 300_000) + line(2))
    found: list[int | None] = []
    for _ in range(6):
        found += requests(poll(source))
    assert found == [1, 2]
    asyncio.run(source.close())


def test_lines_keep_no_more_than_their_bound() -> None:
    lines = Lines()
    for _ in range(50):
        assert lines.take(b"x" * 10_000) == []
    ((kept, number, cut), (short, second, whole)) = lines.take(b"end\nshort\n")
    assert (len(kept), kept[-3:], number, cut) == (LINE_BYTES, b"end", 1, True)
    assert (short, second, whole) == (b"short", 2, False)


def test_a_truncated_file_is_a_gap_and_read_anew(tmp_path: Path, source: RequestRecords) -> None:
    append(hour(tmp_path), line(1, finished=START - 1) + line(2, finished=START - 1))
    poll(source)
    hour(tmp_path).write_text(line(7), encoding="utf-8")
    found = poll(source, START + 1)
    assert [record.reason for record in found if isinstance(record, Gap)] == ["truncated"]
    assert requests(found) == [7]
    asyncio.run(source.close())


def test_a_broken_line_is_counted_and_the_rest_goes_on(tmp_path: Path, source: RequestRecords) -> None:
    poll(source)
    append(hour(tmp_path), "{broken\n" + line(2))
    found = poll(source)
    assert [record.head for record in found if isinstance(record, Unread)] == ["request record"]
    assert requests(found) == [2]
    asyncio.run(source.close())


def test_troubles_are_told_once_in_one_sentence(tmp_path: Path) -> None:
    missing = RequestRecords(tmp_path / "none")
    ((sentence, waiting),) = faults(poll(missing))
    assert "there is no folder" in sentence and "--export-metrics-to-file" in sentence
    assert waiting
    assert poll(missing) == []
    file = tmp_path / "file"
    file.write_text("")
    ((sentence, waiting),) = faults(poll(RequestRecords(file)))
    assert "is no folder" in sentence and not waiting
    (tmp_path / "sglang-request-metrics-20261201_12.log").mkdir()
    ((sentence, _),) = faults(poll(RequestRecords(tmp_path)))
    assert "cannot be read" in sentence
