"""The log of a container, told by stand-ins for docker and podman, and by a real docker client where there is one."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from ddwatch_sidecar.sources.container import Container
from ddwatch_sidecar.sources.contract import Line

from ddwatch.core.records import SourceFault
from tests.fakes.clock import Clock
from tests.fakes.containers import client
from tests.fakes.containers.daemon import daemon
from tests.fakes.containers.paper import Paper
from tests.sidecar.sources.children import Watched, program
from tests.sidecar.sources.reading import only, story

KINDS = ("docker", "podman", "real docker client")


class World:
    """Containers on paper, the program that tells of them, and a reading of one."""

    def __init__(self, folder: Path, kind: str, stack: ExitStack) -> None:
        self.clock = Clock()
        self.root = folder / "containers"
        self.root.mkdir()
        self.kind = kind
        self.paper = Paper(self.root, "kimi", self.clock)
        self.environment = dict(os.environ)
        self._stack = stack
        if kind == KINDS[2]:
            # The path of a socket is short.
            short = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dd", dir="/tmp")))
            stack.enter_context(daemon(self.root, short / "s"))
            self.environment["DOCKER_HOST"] = f"unix://{short}/s"
            self._program = "docker"
        else:
            words = f"{sys.executable} -E {client.__file__} {self.root} {kind}"
            program(folder / kind, f'#!/bin/sh\nexec {words} "$@"\n')
            self.environment["PATH"] = f"{folder}:/usr/bin:/bin"
            self._program = kind

    def read(self, name: str = "kimi", **options: Any) -> Watched:
        """A reading, ended with the test."""

        def which(wanted: str) -> str | None:
            return wanted if wanted == self._program else None

        dialect = Container(name, name=f"docker:{name}", which=which, **options)
        watched = Watched(dialect, f"docker:{name}", environment=self.environment, clock=self.clock, patient=True)
        self._stack.callback(watched.source.close)
        return watched


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param == KINDS[2] and shutil.which("docker") is None:
        pytest.skip("no docker client on this machine; the stand-in is tested")
    with ExitStack() as stack:
        yield World(tmp_path, request.param, stack)


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path, "docker", stack)


def numbered(first: int, last: int) -> list[str]:
    return [f"[x] line {number}" for number in range(first, last + 1)]


def bare(watched: Watched) -> list[str]:
    """The lines without the stamp that old ones carry."""
    return [
        text if line.live else text.partition(" ")[2] for text, line in zip(watched.texts, watched.lines, strict=True)
    ]


class TestContainerContract:
    def test_both_streams_are_read_old_lines_with_their_time_new_ones_live(self, world: World) -> None:
        world.paper.create()
        world.paper.start()
        world.paper.write("[x] to stderr")
        world.paper.write("to stdout", stream="stdout")
        world.clock.advance(3600)
        log = world.read()
        log.until(lambda: len(log.lines) == 2)
        assert sorted(log.texts) == [
            "2026-05-01T12:00:00.000001000Z [x] to stderr",
            "2026-05-01T12:00:00.000002000Z to stdout",
        ]
        log.until(lambda: log.following)
        world.paper.write("[x] new")
        log.until(lambda: len(log.lines) == 3)
        assert log.lines[-1] == Line(b"[x] new", None, live=True)
        assert story(log.items)[0] == "<up>"
        assert log.gaps == [] and only(SourceFault, log.items) == []

    def test_a_restart_of_the_container_loses_and_doubles_nothing(self, world: World) -> None:
        world.paper.create()
        world.paper.start()
        world.paper.write(*numbered(1, 5))
        log = world.read()
        log.until(lambda: len(log.lines) == 5)
        world.paper.write("[x] line 6")
        world.paper.stop(137, out_of_memory=True)
        fault = log.until_fault(seconds=0.25)
        program_name = "podman" if world.kind == "podman" else "docker"
        assert fault.reason == (
            f"container kimi is not running (exited, exit code 137, out of memory): `{program_name} start kimi`"
        )
        assert fault.gone and not fault.waiting
        world.clock.advance(600)
        world.paper.start()
        world.paper.write(*numbered(7, 9))
        log.until(lambda: len(log.lines) == 9, seconds=1.0)
        assert bare(log) == numbered(1, 9)
        assert log.gaps == []
        assert story(log.items)[-4:] == ["<up>", *numbered(7, 9)]

    def test_a_client_that_dies_is_started_again_and_nothing_is_doubled(self, world: World) -> None:
        world.paper.create()
        world.paper.start()
        world.paper.write(*numbered(1, 3))
        log = world.read()
        log.until(lambda: len(log.lines) == 3)
        log.kill()
        world.paper.write(*numbered(4, 6))
        log.until(lambda: len(log.lines) == 6, seconds=1.0)
        assert (bare(log), log.gaps) == (numbered(1, 6), [])
        assert only(SourceFault, log.items)[0].reason.endswith(" was ended by SIGKILL; it is started again")

    def test_a_new_container_of_the_name_is_read_from_its_beginning(self, world: World) -> None:
        world.paper.create()
        world.paper.start()
        world.paper.write(*numbered(1, 3))
        log = world.read()
        log.until(lambda: len(log.lines) == 3)
        world.paper.stop()
        log.until_fault(seconds=0.25)
        world.paper.remove()
        fault = log.until_fault(2, seconds=1.0)
        assert fault.reason.startswith("there is no container kimi (yet): `")
        world.paper.create()
        world.paper.start()
        world.paper.write(*numbered(1, 2))
        log.until(lambda: len(log.lines) == 5, seconds=1.0)
        assert bare(log) == numbered(1, 3) + numbered(1, 2)
        assert log.gaps == []

    def test_one_that_is_not_there_is_waited_for(self, world: World) -> None:
        log = world.read()
        fault = log.until_fault()
        assert fault.waiting and fault.reason.endswith(" ps -a` lists them")
        world.paper.create()
        world.paper.start()
        world.paper.write("[x] here")
        log.until(lambda: bare(log) == ["[x] here"], seconds=1.0)
        assert len(only(SourceFault, log.items)) == 1

    def test_what_a_stopped_one_said_last_is_read(self, world: World) -> None:
        world.paper.create()
        world.paper.start()
        world.paper.write(*numbered(1, 3))
        world.paper.stop(1)
        log = world.read()
        log.until_fault(seconds=0.25)
        assert bare(log) == numbered(1, 3)
        assert "(exited, exit code 1)" in only(SourceFault, log.items)[0].reason

    def test_pieces_of_a_long_line_are_joined(self, world: World) -> None:
        long = "[x] " + "0123456789" * 4000
        world.paper.create()
        world.paper.start()
        world.paper.write("[x] before", long, "[x] after")
        log = world.read()
        log.until(lambda: len(log.lines) == 3)
        assert bare(log) == ["[x] before", long, "[x] after"]

    def test_of_a_large_log_the_beginning_of_the_run_and_the_end_are_read(self, world: World) -> None:
        world.paper.create()
        world.paper.start()
        world.paper.write(*(f"run before {number}" for number in range(10)))
        world.paper.stop()
        world.clock.advance(60)
        world.paper.start()
        world.paper.write("server_args=ServerArgs()", *(f"line {number}" for number in range(300)))
        world.clock.advance(60)
        log = world.read(catch_up_bytes=10 * 200, head_bytes=100)
        log.until(lambda: bool(log.lines) and bare(log)[-1] == "line 299")
        assert bare(log)[:2] == ["server_args=ServerArgs()", "line 0"]
        assert bare(log)[-10:] == [f"line {number}" for number in range(290, 300)]
        assert [gap.reason for gap in log.gaps] == ["skipped"]
        assert len(set(bare(log))) == len(log.lines) < 40

    def test_a_log_that_was_rotated_away_meanwhile_is_a_gap(self, world: World) -> None:
        world.paper.create()
        world.paper.start()
        world.paper.write(*numbered(1, 3))
        log = world.read()
        log.until(lambda: len(log.lines) == 3)
        log.kill()
        world.paper.rotate()
        world.paper.write(*numbered(7, 8))
        log.until(lambda: len(log.lines) == 5, seconds=1.0)
        assert bare(log) == numbered(1, 3) + numbered(7, 8)
        assert [(gap.reason, gap.source) for gap in log.gaps] == [("rotated", "docker:kimi")]


@pytest.mark.parametrize(
    ("said", "says", "waiting"),
    [
        (
            "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: Get",
            "docker may not be used by this user: add it to the group docker (which is as good as root)",
            False,
        ),
        (
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
            "the docker daemon does not answer: `systemctl status docker`",
            False,
        ),
        (
            "Error response from daemon: configured logging driver does not support reading",
            "the log driver of container kimi cannot be read: run it with --log-driver json-file",
            False,
        ),
        (
            "Error response from daemon: something new",
            "docker ended with exit code 1: Error response from daemon: something new; it is started again",
            False,
        ),
    ],
)
def test_what_docker_refuses_is_one_sentence(stand_in: World, said: str, says: str, waiting: bool) -> None:
    (stand_in.root / "refusal").write_text(said, encoding="utf-8")
    fault = stand_in.read().until_fault()
    assert (fault.reason, fault.waiting) == (says, waiting)


def test_a_refusal_that_ends_is_over(stand_in: World) -> None:
    (stand_in.root / "refusal").write_text("Cannot connect to the Docker daemon", encoding="utf-8")
    log = stand_in.read()
    log.until_fault()
    stand_in.paper.create()
    stand_in.paper.start()
    stand_in.paper.write("[x] one")
    (stand_in.root / "refusal").unlink()
    log.until(lambda: bare(log) == ["[x] one"], seconds=1.0)


def test_one_stream_that_is_closed_does_not_end_the_other(tmp_path: Path) -> None:
    state = '{"Status":"running","StartedAt":"2026-05-01T12:00:00Z"}'
    script = program(
        tmp_path / "docker",
        f"#!/bin/sh\ncase \"$*\" in *inspect*) echo 'abc {state}'; exit;; esac\n"
        "exec >&-\necho '2026-05-01T12:00:01.000000000Z one' >&2\n"
        f"while ! [ -e {tmp_path}/go ]; do sleep 0.02; done\n"
        "echo '2026-05-01T12:00:02.000000000Z two' >&2\nexec sleep 60\n",
    )
    environment = {"PATH": f"{script.parent}:/usr/bin:/bin"}
    log = Watched(Container("kimi", name="docker:kimi", catch_up_bytes=0), "docker:kimi", environment=environment)
    log.until_texts("one")
    log.poll(5.0)
    (tmp_path / "go").touch()
    log.until_texts("one", "two")
    log.source.close()


def test_a_daemon_that_hangs_is_told_and_read_once_it_answers(tmp_path: Path) -> None:
    state = '{"Status":"running","StartedAt":"2026-05-01T12:00:00Z"}'
    script = program(
        tmp_path / "docker",
        "#!/bin/sh\n"
        f"while ! [ -e {tmp_path}/go ]; do sleep 0.02; done\n"
        f"case \"$*\" in *inspect*) echo 'abc {state}'; exit;; esac\n"
        "echo '2026-05-01T12:00:01.000000000Z one'\nexec sleep 60\n",
    )
    environment = {"PATH": f"{script.parent}:/usr/bin:/bin"}
    log = Watched(Container("kimi", name="docker:kimi", catch_up_bytes=0), "docker:kimi", environment=environment)
    fault = log.until_fault(seconds=0.5)
    assert fault.reason == "the docker daemon does not answer: `systemctl status docker`"
    (tmp_path / "go").touch()
    log.until_lines(1)
    log.source.close()


def test_without_docker_and_podman_it_says_what_else_there_is(tmp_path: Path) -> None:
    dialect = Container("kimi", name="docker:kimi", which=lambda _: None)
    log = Watched(dialect, "docker:kimi", environment={"PATH": str(tmp_path)})
    fault = log.until_fault()
    assert fault.reason == "neither docker nor podman is to be had here: name the container's log file (--log PATH)"
    log.source.close()
