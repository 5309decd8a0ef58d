"""Commands that print lines: real processes that die, hang, repeat themselves, print anything, and leave children."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ddwatch_sidecar.sources.command import Command
from ddwatch_sidecar.sources.contract import Line
from ddwatch_sidecar.sources.lines import LINE_LIMIT

from ddwatch.core.records import Gap, SourceFault, SourceUp
from tests.sidecar.sources.children import Watched, alive, program, until_dead
from tests.sidecar.sources.reading import only, story

Make = Callable[..., Watched]


@pytest.fixture
def command() -> Iterator[Make]:
    made: list[Watched] = []

    def make(*words: str, environment: dict[str, str] | None = None) -> Watched:
        name = f"command:{words[0].rpartition('/')[2]}"
        made.append(Watched(Command(words, name=name), name, environment=environment))
        return made[-1]

    yield make
    for one in made:
        one.source.close()


def sh(text: str) -> tuple[str, ...]:
    return ("sh", "-c", text)


def test_it_prints_and_is_read(command: Make) -> None:
    log = command(*sh("echo one; echo two; exec sleep 60"))
    log.until_texts("one", "two")
    assert story(log.items) == ["<up>", "one", "two"]
    up = only(SourceUp, log.items)[0]
    assert (up.source, up.detail) == ("command:sh", "reading the output of sh")


def test_the_words_are_no_shells(command: Make, tmp_path: Path) -> None:
    log = command("echo", f"$(touch {tmp_path}/made); `id`", "*", "'a b'")
    log.until_texts(f"$(touch {tmp_path}/made); `id` * 'a b'")
    assert not (tmp_path / "made").exists()


def test_what_it_begins_with_is_its_past_and_the_rest_is_live(command: Make, tmp_path: Path) -> None:
    log = command(*sh(f"echo old; while ! [ -e {tmp_path}/go ]; do sleep 0.02; done; echo new; exec sleep 60"))
    log.until_texts("old")
    log.poll(0.25)
    log.poll(0.25)
    (tmp_path / "go").touch()
    log.until_texts("old", "new")
    assert [line.live for line in log.lines] == [False, True]


def test_a_first_line_after_a_long_silence_is_live(command: Make, tmp_path: Path) -> None:
    log = command(*sh(f"while ! [ -e {tmp_path}/go ]; do sleep 0.02; done; echo new; exec sleep 60"))
    log.poll()
    log.poll(20.0)
    assert story(log.items) == ["<up>"]
    (tmp_path / "go").touch()
    log.until_texts("new")
    assert log.lines[0].live


def test_its_end_is_told_with_its_exit_code_and_last_words(command: Make) -> None:
    log = command(*sh("echo one; echo 'first words' >&2; echo 'connection to pod lost.' >&2; exit 3"))
    fault = log.until_fault()
    assert fault.reason == "sh ended with exit code 3: connection to pod lost; it is started again"
    assert story(log.items) == ["<up>", "one", "<fault>"]


def test_a_signal_is_named(command: Make) -> None:
    assert command(*sh("kill -TERM $$")).until_fault().reason == "sh was ended by SIGTERM; it is started again"


def test_a_program_that_is_not_there_and_one_that_may_not_be_run(command: Make, tmp_path: Path) -> None:
    reason = "there is no command 'no-such-program' here that this user may run"
    assert command("no-such-program").until_fault().reason == reason
    (tmp_path / "plain").write_text("text", encoding="utf-8")
    assert "that this user may run" in command(str(tmp_path / "plain")).until_fault().reason


def test_pauses_grow_and_are_short_again_after_it_ran_well(command: Make, tmp_path: Path) -> None:
    log = command(*sh(f"echo x >> {tmp_path}/starts; while [ -e {tmp_path}/stay ]; do sleep 0.02; done; exit 1"))

    def starts() -> int:
        return len((tmp_path / "starts").read_text().splitlines()) if (tmp_path / "starts").exists() else 0

    def over() -> bool:
        return log.source.pid is None

    log.poll()
    for number, pause in enumerate((1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0), 1):
        log.until(over)
        assert starts() == number
        log.poll(pause - 0.1)
        assert over()
        log.poll(0.2)
        assert not over()
    log.until(over)
    assert len(only(SourceFault, log.items)) == 1
    (tmp_path / "stay").touch()
    log.poll(60.0)
    log.until(lambda: starts() == 10)
    log.poll(31.0)
    (tmp_path / "stay").unlink()
    log.until(over)
    log.poll(1.1)
    assert not over()


def test_what_it_repeats_is_not_read_twice(command: Make, tmp_path: Path) -> None:
    log = command(*sh(f"cat {tmp_path}/log; [ -e {tmp_path}/stay ] && exec sleep 60"))
    (tmp_path / "log").write_text("1\n2\n3\n4\n5\n")
    log.until_fault()
    (tmp_path / "log").write_text("1\n2\n3\n4\n5\n6\n7\n")
    (tmp_path / "stay").touch()
    log.until_texts("1", "2", "3", "4", "5", "6", "7", seconds=0.25)
    assert log.gaps == []
    assert [line.live for line in log.lines] == [False] * 5 + [True] * 2


def test_one_that_prints_the_same_again_and_again_adds_nothing(command: Make, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("1\n2\n3\n")
    log = command("cat", str(tmp_path / "log"))
    for _ in range(4):
        log.until(lambda: log.source.pid is not None, seconds=1.0)
        log.until(lambda: log.source.pid is None, seconds=0.1)
    assert story(log.items) == ["<up>", "1", "2", "3", "<fault>"]


def test_a_place_that_is_gone_is_a_gap(command: Make, tmp_path: Path) -> None:
    log = command(*sh(f"cat {tmp_path}/log; [ -e {tmp_path}/stay ] && exec sleep 60"))
    (tmp_path / "log").write_text("1\n2\n3\n")
    log.until_fault()
    (tmp_path / "log").write_text("7\n8\n")
    (tmp_path / "stay").touch()
    log.until_texts("1", "2", "3", "7", "8", seconds=0.25)
    (gap,) = log.gaps
    assert (gap.reason, gap.detail) == ("lost", "sh was started again and what it printed in between is unknown")
    assert story(log.items) == ["<up>", "1", "2", "3", "<fault>", "<up>", "<gap lost>", "7", "8"]


def test_long_lines_binary_and_halves(command: Make) -> None:
    script = (
        "import sys, os\n"
        "w = os.write\n"
        "w(1, b'a' * 16384 + b'\\n')\n"
        "w(1, bytes(range(1, 10)) + bytes(range(11, 256)) + b'\\n')\n"
        "for _ in range(3): w(1, b'y' * 65536)\n"
        "w(1, b'\\nlast words')\n"
    )
    log = command(sys.executable, "-c", script)
    log.until_fault()
    lines = log.lines
    assert [(len(line.data), line.whole) for line in lines] == [
        (16384, True),
        (254, True),
        (LINE_LIMIT, False),
        (10, False),
    ]
    assert [gap.reason for gap in log.gaps] == ["too-long"]
    assert log.gaps[0].detail.startswith("1 line(s) of the output of ")


def test_a_flood_is_read_in_pieces(command: Make) -> None:
    log = command(*sh("yes 0123456789 | head -n 300000; exec sleep 60"))
    log.source.poll(log.clock.now)
    counts: list[int] = []
    seen = 0
    while seen < 300_000:
        counts.append(len(only(Line, log.source.poll(log.clock.now))))
        seen += counts[-1]
    assert max(counts) < 30_000


def test_a_process_that_closes_its_output_and_lives_on_is_ended(command: Make) -> None:
    log = command(*sh("echo one; exec >&-; exec sleep 60"))
    log.until_texts("one")
    pid = log.source.pid
    assert pid is not None
    fault = log.until_fault(seconds=0.2)
    assert fault.reason == "sh closed its output and ran on; it is started again"
    until_dead(pid)


def test_children_of_an_ended_command_that_hold_its_output_are_ended(command: Make, tmp_path: Path) -> None:
    log = command(*sh(f"sleep 60 & echo $! > {tmp_path}/pid; echo one; exit 0"))
    fault = log.until_fault()
    assert fault.reason == "sh ended with exit code 0; it is started again"
    until_dead(int((tmp_path / "pid").read_text()))


def test_close_ends_it_and_its_children(command: Make, tmp_path: Path) -> None:
    log = command(*sh(f"trap '' TERM HUP; sleep 60 & echo $! > {tmp_path}/pid; echo one; wait"))
    log.until_texts("one")
    pid, grandchild = log.source.pid, int((tmp_path / "pid").read_text())
    assert pid is not None and alive(pid) and alive(grandchild)
    log.source.close()
    until_dead(pid, grandchild)
    assert log.source.poll(log.clock.advance(5.0)) == []
    log.source.close()


def test_a_log_on_stderr_is_not_read_and_not_repeated_but_explained(command: Make) -> None:
    log = command(*sh("echo '[2026-05-01 12:00:00] Finish: obj=GenerateReqInput(text=secret)' >&2; exec sleep 60"))
    fault = log.until_fault(seconds=1.0)
    assert "prints its log on stderr, which is not read" in fault.reason
    assert "secret" not in fault.reason and len(log.lines) == 0
    over = command(*sh("echo 'INFO: secret' >&2; exit 1")).until_fault()
    assert "stderr" in over.reason and "secret" not in over.reason


def test_its_last_words_are_bounded_and_printable(command: Make, tmp_path: Path) -> None:
    noise = "yes noise | head -n 20000 >&2"
    long = "printf '\\033[31m%s' \"$(yes x | head -c 9000 | tr -d '\\n')\" >&2"
    script = program(tmp_path / "loud", f"#!/bin/sh\n{noise}\n{long}\nexit 1\n")
    reason = command(str(script)).until_fault().reason
    assert reason.isprintable() and len(reason) < 300


def test_it_has_nothing_on_standard_input(command: Make) -> None:
    log = command(*sh("cat; echo done; exec sleep 60"))
    log.until_texts("done")


def test_a_gap_carries_the_name_of_its_source(command: Make, tmp_path: Path) -> None:
    log = command(*sh(f"cat {tmp_path}/log"))
    (tmp_path / "log").write_text("1\n")
    log.until_fault()
    (tmp_path / "log").write_text("2\n")
    log.until_texts("1", "2", seconds=0.25)
    assert {item.source for item in log.items if isinstance(item, (Gap, SourceFault, SourceUp))} == {"command:sh"}
