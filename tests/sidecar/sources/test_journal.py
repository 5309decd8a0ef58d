"""The journal of a unit, read by the real journalctl from real journal files; its refusals as captured from it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ddwatch_sidecar.sources.contract import Line
from ddwatch_sidecar.sources.journal import Entry
from ddwatch_sidecar.sources.journal import Journal as Dialect
from ddwatch_sidecar.sources.lines import LINE_LIMIT

from ddwatch.core.records import SourceFault
from tests.fakes.journal import SUPPRESSED, Journal
from tests.sidecar.sources.children import Watched, program
from tests.sidecar.sources.reading import only, story

Make = Callable[..., Watched]


@pytest.fixture
def journal(tmp_path: Path, needs_command: Callable[[str], Path]) -> Iterator[Journal]:
    needs_command("journalctl")
    made = Journal(tmp_path / "journal", needs_command("systemd-journal-remote"))
    yield made
    made.rotate()


@pytest.fixture
def reading() -> Iterator[Make]:
    made: list[Watched] = []

    def make(command: tuple[str, ...], unit: str = "sglang", **options: Any) -> Watched:
        name = f"journal:{unit}"
        made.append(Watched(Dialect(unit, name=name, command=command, **options), name))
        return made[-1]

    yield make
    for one in made:
        one.source.close()


def numbered(first: int, last: int) -> list[str]:
    return [f"line {number}" for number in range(first, last + 1)]


def bare(watched: Watched) -> list[str]:
    """The lines without the stamp that old ones carry."""
    return [
        text if line.live else text.partition(" ")[2] for text, line in zip(watched.texts, watched.lines, strict=True)
    ]


class TestRealJournal:
    def test_old_lines_carry_their_time_and_new_ones_are_live(self, journal: Journal, reading: Make) -> None:
        journal.write(-3600.5, "[2026-05-01 13:00:00] old", "old too")
        log = reading(journal.command)
        log.until(lambda: len(log.lines) == 2)
        assert log.texts == [
            "2026-05-01T10:59:59.500000000Z [2026-05-01 13:00:00] old",
            "2026-05-01T10:59:59.501000000Z old too",
        ]
        journal.write(1.0, "new")
        log.until(lambda: len(log.lines) == 3)
        assert log.lines[-1] == Line(b"new", None, live=True)
        assert story(log.items)[0] == "<up>" and log.gaps == []

    def test_text_of_any_kind(self, journal: Journal, reading: Make) -> None:
        arguments = "server_args=ServerArgs(" + "x" * 6000 + ")"
        journal.write(0.0, arguments, b"bad \xff bytes", "two\nlines", "Grüße", "esc \x1b[31mred\ttab", "z" * 100_000)
        journal.write(1.0, "", "end")
        log = reading(journal.command)
        log.until(lambda: len(log.lines) == 8)
        assert [line.data.partition(b" ")[2] for line in log.lines[:5]] == [
            arguments.encode(),
            b"bad \xff bytes",
            b"two\nlines",
            "Grüße".encode(),
            b"esc \x1b[31mred\ttab",
        ]
        assert (len(log.lines[5].data), log.lines[5].whole) == (LINE_LIMIT, False)
        assert bare(log)[6:] == ["", "end"]
        assert [gap.reason for gap in log.gaps] == ["too-long"]

    def test_only_the_unit_is_read(self, journal: Journal, reading: Make) -> None:
        journal.write(0.0, "other", _SYSTEMD_UNIT="nginx.service", _SYSTEMD_INVOCATION_ID="d" * 32)
        journal.write(1.0, "ours")
        journal.write(2.0, "of a user", _SYSTEMD_UNIT="user@1000.service", _SYSTEMD_USER_UNIT="sglang.service")
        log = reading(journal.command)
        log.until(lambda: bare(log) == ["ours"])
        user = reading(journal.command, user=True)
        user.until(lambda: bare(user) == ["of a user"])

    def test_after_a_restart_it_goes_on_at_the_cursor(self, journal: Journal, reading: Make) -> None:
        journal.write(0.0, *numbered(1, 5))
        log = reading(journal.command)
        log.until(lambda: len(log.lines) == 5)
        for first in (6, 9, 12):
            log.kill()
            journal.write(float(first), *numbered(first, first + 2))
            log.until_lines(first + 2, seconds=1.0)
        assert bare(log) == numbered(1, 14)
        assert log.gaps == []
        assert [fault.reason for fault in only(SourceFault, log.items)] == [
            "journalctl was ended by SIGKILL; it is started again"
        ] * 3

    def test_a_rotation_while_it_is_read_and_while_it_is_not_loses_nothing(
        self, journal: Journal, reading: Make
    ) -> None:
        journal.write(0.0, *numbered(1, 3))
        log = reading(journal.command)
        log.until(lambda: len(log.lines) == 3)
        journal.rotate()
        journal.write(4.0, *numbered(4, 5))
        log.until(lambda: len(log.lines) == 5)
        log.kill()
        journal.rotate()
        journal.write(6.0, *numbered(6, 7))
        log.until(lambda: len(log.lines) == 7, seconds=1.0)
        assert (bare(log), log.gaps) == (numbered(1, 7), [])

    def test_a_vacuum_while_nobody_read_is_a_gap_and_repeats_nothing(self, journal: Journal, reading: Make) -> None:
        journal.write(0.0, *numbered(1, 3))
        log = reading(journal.command)
        log.until(lambda: len(log.lines) == 3)
        log.kill()
        journal.write(4.0, *numbered(4, 5))
        journal.rotate()
        journal.write(6.0, *numbered(6, 7))
        journal.vacuum()
        log.until(lambda: len(log.lines) == 5, seconds=1.0)
        assert bare(log) == [*numbered(1, 3), *numbered(6, 7)]
        (gap,) = log.gaps
        assert (gap.reason, gap.source) == ("rotated", "journal:sglang")
        assert (
            gap.detail
            == "the journal of sglang was rotated away before it was read on; lines in between may be missing"
        )
        assert story(log.items)[-3:] == ["<gap rotated>", "line 6", "line 7"]

    def test_suppressed_lines_are_a_gap(self, journal: Journal, reading: Make) -> None:
        journal.write(0.0, "before")
        journal.write(
            1.0,
            "Suppressed 123 messages from sglang.service",
            MESSAGE_ID=SUPPRESSED,
            N_DROPPED="123",
            _SYSTEMD_UNIT="systemd-journald.service",
            OBJECT_SYSTEMD_UNIT="sglang.service",
            _UID="0",
        )
        journal.write(2.0, "Suppressed 9 messages from nobody", "after")
        log = reading(journal.command)
        log.until(lambda: len(log.lines) == 3)
        assert bare(log) == ["before", "Suppressed 9 messages from nobody", "after"]
        assert story(log.items)[2] == "<gap suppressed>"
        assert log.gaps[0].detail.startswith("journald dropped 123 lines of sglang: LogRateLimitIntervalSec=0")

    def test_a_main_process_that_ends_is_a_server_that_is_gone_until_its_next_start(
        self, journal: Journal, reading: Make
    ) -> None:
        journal.write(-60.0, "[x] old")
        log = reading(journal.command)
        log.until(lambda: log.following and len(log.lines) == 1)
        journal.write(1.0, "[x] working")
        log.until_lines(2)
        journal.manage(
            2.0,
            "sglang.service: Main process exited, code=killed, status=9/KILL",
            "sglang.service: Failed with result 'signal'.",
            invocation="f" * 32,
        )
        journal.write(2.5, "[x] last words of another of its processes")
        log.until_lines(3)
        fault = log.until_fault(seconds=0.25)
        assert fault.gone and fault.reason == (
            "the main process of sglang has ended (killed, 9/KILL): `systemctl status sglang`"
        )
        journal.write(4.0, "[x] too late to be a sign of life")
        journal.manage(5.0, "Started sglang.service - SGLang.", invocation="e" * 32)
        journal.write(9.0, "[x] again", _SYSTEMD_INVOCATION_ID="e" * 32)
        log.until_lines(4, seconds=0.25)
        assert story(log.items)[-2:] == ["<up>", "[x] again"]
        assert bare(log)[2] == "[x] last words of another of its processes"
        assert len(only(SourceFault, log.items)) == 1

    def test_a_restart_by_the_manager_is_no_end(self, journal: Journal, reading: Make) -> None:
        journal.write(1.0, "[x] working")
        log = reading(journal.command)
        log.until(lambda: log.following and len(log.lines) == 1)
        journal.manage(2.0, "sglang.service: Main process exited, code=exited, status=1/FAILURE", invocation="f" * 32)
        journal.manage(2.2, "Started sglang.service - SGLang.", invocation="e" * 32)
        journal.write(2.3, "[x] again", _SYSTEMD_INVOCATION_ID="e" * 32)
        log.until_lines(2)
        log.poll(5.0)
        log.poll(5.0)
        assert only(SourceFault, log.items) == []

    def test_a_line_that_journald_stored_in_pieces_is_joined(self, journal: Journal, reading: Make) -> None:
        journal.write(0.0, "[a] long", _LINE_BREAK="line-max", _STREAM_ID="7")
        journal.write(1.0, " line", _STREAM_ID="7")
        journal.write(2.0, "torn", _LINE_BREAK="line-max", _STREAM_ID="7")
        journal.write(3.0, "other", _STREAM_ID="8")
        log = reading(journal.command)
        log.until(lambda: bare(log) == ["[a] long line", "other"])

    def test_of_a_large_journal_the_beginning_of_the_run_and_the_end_are_read(
        self, journal: Journal, reading: Make
    ) -> None:
        journal.write(-900.0, *(f"run before {number}" for number in range(10)), _SYSTEMD_INVOCATION_ID="e" * 32)
        journal.write(-800.0, "server_args=ServerArgs()", *(f"head {number}" for number in range(20)))
        journal.write(-700.0, *(f"middle {number}" for number in range(200)))
        journal.write(-600.0, *(f"end {number}" for number in range(10)))
        log = reading(journal.command, catch_up_bytes=10 * 200, head_bytes=100)
        log.until(lambda: len(log.lines) > 10 and "end 9" in log.texts[-1])
        assert bare(log)[:3] == ["server_args=ServerArgs()", "head 0", "head 1"]
        assert bare(log)[-10:] == [f"end {number}" for number in range(10)]
        assert [gap.reason for gap in log.gaps] == ["skipped"]
        assert len(set(bare(log))) == len(log.lines) < 60
        log.kill()
        journal.write(1.0, "more")
        log.until(lambda: log.texts[-1] == "more", seconds=1.0)
        assert len(log.gaps) == 1

    def test_of_a_small_journal_each_line_is_read_once(self, journal: Journal, reading: Make) -> None:
        journal.write(-900.0, "before", _SYSTEMD_INVOCATION_ID="e" * 32)
        journal.write(-800.0, *numbered(1, 30))
        log = reading(journal.command)
        log.until(lambda: len(log.lines) == 30)
        journal.write(1.0, "line 31")
        log.until(lambda: len(log.lines) == 31)
        assert bare(log) == numbered(1, 31)
        assert log.gaps == []

    def test_a_beginning_that_reaches_into_the_end_is_read_once(self, journal: Journal, reading: Make) -> None:
        journal.write(-800.0, *numbered(1, 30))
        log = reading(journal.command, catch_up_bytes=25 * 200, head_bytes=70)
        log.until(lambda: len(log.lines) == 30)
        assert (bare(log), log.gaps) == (numbered(1, 30), [])

    def test_nothing_of_the_past_is_read_when_none_is_wanted(self, journal: Journal, reading: Make) -> None:
        journal.write(-800.0, *numbered(1, 3))
        log = reading(journal.command, catch_up_bytes=0)
        log.poll()
        # Nobody tells when journalctl has found the end: one of several new lines stands behind it.
        seconds = iter(range(10, 1000))

        def wrote_and_read() -> bool:
            journal.write(float(next(seconds)), "new")
            log.poll(0.1)
            return len(log.lines) > 0

        log.until(wrote_and_read)
        assert set(log.texts) == {"new"}

    def test_a_unit_without_a_line_is_waited_for(self, journal: Journal, reading: Make) -> None:
        journal.write(0.0, "ours")
        log = reading(journal.command, unit="sglong")
        fault = log.until_fault(seconds=0.25)
        assert fault.waiting
        assert fault.reason == (
            "the journal holds no line of sglong (yet): is the name right? `systemctl status sglong`"
        )
        journal.write(20.0, "here", _SYSTEMD_UNIT="sglong.service")
        log.until(lambda: bare(log) == ["here"])
        assert story(log.items)[:2] == ["<waiting>", "<up>"]


@pytest.mark.parametrize(
    ("said", "code", "stays", "says"),
    [
        (
            "Hint: You are currently not seeing messages from other users and the system.\n"
            "      Users in groups 'adm', 'systemd-journal' can see all messages.\n"
            "      Pass -q to turn off this notice.\n",
            0,
            True,
            "may not be read by this user: add the user that runs ddwatch to the group systemd-journal or adm",
        ),
        (
            "No journal files were opened due to insufficient permissions.\n",
            1,
            False,
            "may not be read by this user",
        ),
        (
            "Data from the specified boot (+0) is not available: No such boot ID in journal\n",
            1,
            False,
            "there is no journal here: journald keeps none, or add the user",
        ),
        ("No journal files were found.\n", 1, False, "there is no journal here"),
        (
            "Failed to open /x: Input/output error\n",
            1,
            False,
            "journalctl ended with exit code 1: Failed to open /x: Input/output error; it is started again",
        ),
    ],
)
def test_what_journalctl_refuses_is_one_sentence(
    reading: Make, tmp_path: Path, said: str, code: int, stays: bool, says: str
) -> None:
    last = "exec sleep 60" if stays else f"exit {code}"
    script = program(tmp_path / "journalctl", f"#!/bin/sh\ncat >&2 <<'END'\n{said}END\n{last}\n")
    log = reading((str(script),), catch_up_bytes=0)
    # Until it has spoken, its silence may be told first.
    log.until(lambda: any(says in fault.reason for fault in only(SourceFault, log.items)), seconds=0.1)
    assert all("\n" not in fault.reason for fault in only(SourceFault, log.items))


def test_without_journalctl_it_says_what_else_there_is(reading: Make) -> None:
    fault = reading(("no-such-journalctl",)).until_fault()
    assert fault.waiting
    assert fault.reason == (
        "there is no command 'no-such-journalctl' here that this user may run: without systemd there is no journal; "
        "name a file (--log PATH) or a container (--log docker:NAME)"
    )


def test_a_cursor_that_journalctl_will_not_take_is_a_gap(reading: Make, tmp_path: Path) -> None:
    entry = '{"__CURSOR":"s=1","__REALTIME_TIMESTAMP":"1777636801000000","MESSAGE":"one"}'
    script = program(
        tmp_path / "journalctl",
        "#!/bin/sh\n"
        'case "$*" in\n'
        '*--cursor*) echo "Failed to seek to cursor: Invalid argument" >&2; exit 1 ;;\n'
        f"*) echo '{entry}' ;;\n"
        "esac\n",
    )
    log = reading((str(script),), catch_up_bytes=0)
    log.until(lambda: len(log.gaps) > 0, seconds=1.0)
    assert log.gaps[0].reason == "rotated"


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "{",
        '{"MESSAGE":"no cursor"}',
        '{"__CURSOR":"s=1","__REALTIME_TIMESTAMP":"x","MESSAGE":"a"}',
        '{"__CURSOR":"s=1","__REALTIME_TIMESTAMP":"99999999999999999999","MESSAGE":"a"}',
        "[" * 100_000,
    ],
)
def test_what_is_no_entry_is_left_out(reading: Make, tmp_path: Path, line: str) -> None:
    (tmp_path / "lines").write_text(
        f'{line}\n{{"__CURSOR":"s=2","__REALTIME_TIMESTAMP":"1777636801000000","MESSAGE":"good"}}\n'
    )
    script = program(tmp_path / "journalctl", f"#!/bin/sh\ncat {tmp_path}/lines\nexec sleep 60\n")
    log = reading((str(script),), catch_up_bytes=0)
    log.until_texts("good")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ('"a"', b"a"),
        ("[97,255]", b"a\xff"),
        ("null", b""),
        ('["a","b"]', b"a"),
        ("[[97],[98]]", b"a"),
        ("[300]", b""),
        ("[]", b""),
    ],
)
def test_messages_of_all_shapes(message: str, text: bytes) -> None:
    entry = msgspec.json.decode(f'{{"__CURSOR":"s","__REALTIME_TIMESTAMP":"1","MESSAGE":{message}}}', type=Entry)
    assert entry.text == text
