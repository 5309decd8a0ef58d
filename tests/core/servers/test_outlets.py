"""Where a log is read, from where a server writes; each case with its sentence."""

import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.servers.cgroups import Container, Unit
from ddwatch.core.servers.outlets import LogTraces, Outlet, Reader, best_file, log_of, outlet, written_by_tee

PIPE = Outlet(kind="pipe")
SOCKET = Outlet(kind="socket")
FILE = Outlet(kind="file", path="/var/log/sglang.log")
TERMINAL = Outlet(kind="terminal")
DOCKER = Container(id="3f2a" * 16, runtime="docker")


@pytest.mark.parametrize(
    ("link", "mode", "present", "kind", "path"),
    [
        ("/var/log/sglang.log", stat.S_IFREG, True, "file", "/var/log/sglang.log"),
        ("/var/log/sglang.log", None, False, "file", "/var/log/sglang.log"),
        ("/var/log/sglang.log (deleted)", stat.S_IFREG, False, "deleted", "/var/log/sglang.log"),
        ("/var/log/odd (deleted)", stat.S_IFREG, True, "file", "/var/log/odd (deleted)"),
        ("/run/log.fifo", stat.S_IFIFO, True, "pipe", None),
        ("pipe:[4711]", None, False, "pipe", None),
        ("socket:[4711]", None, False, "socket", None),
        ("/dev/null", stat.S_IFCHR, True, "null", None),
        ("/dev/pts/3", stat.S_IFCHR, True, "terminal", None),
        ("/dev/tty1", None, True, "terminal", None),
        ("/dev/kmsg", stat.S_IFCHR, True, "other", None),
        ("anon_inode:[eventfd]", None, False, "other", None),
        ("/memfd:x (deleted)", None, False, "other", None),
        (None, None, False, "unread", None),
    ],
)
def test_links_of_descriptors(link: str | None, mode: int | None, present: bool, kind: str, path: str | None) -> None:
    found = outlet(link, mode, present=present)
    assert (found.kind, found.path) == (kind, path)


@pytest.mark.parametrize(
    ("traces", "source", "words"),
    [
        (LogTraces(stderr=FILE, place="/var/log/sglang.log"), "/var/log/sglang.log", "standard error is redirected"),
        (LogTraces(stderr=FILE, place="/var/log/sglang.log", readable=False), None, "may not read"),
        (
            LogTraces(stderr=FILE, place="/proc/5/root/var/log/sglang.log"),
            "/proc/5/root/var/log/sglang.log",
            "/var/log/sglang.log of its container, under this name while it lives",
        ),
        (LogTraces(stderr=FILE), None, "cannot reach it"),
        (LogTraces(stderr=FILE, container=DOCKER), None, "inside its container"),
        (
            LogTraces(stderr=Outlet(kind="deleted", path="/x.log"), place="/proc/5/fd/2"),
            "/proc/5/fd/2",
            "/x.log was deleted",
        ),
        (LogTraces(stderr=Outlet(kind="deleted", path="/x.log")), None, "/x.log was deleted"),
        (LogTraces(stderr=PIPE, reader=Reader(pid=5, name="tee", file="/a.log")), "/a.log", "written by tee"),
        (LogTraces(stderr=PIPE, reader=Reader(pid=5, name="slurmstepd")), None, "read by slurmstepd (pid 5)"),
        (LogTraces(stderr=PIPE), None, "whose reader cannot be seen"),
        (
            LogTraces(stderr=PIPE, container=DOCKER, container_name="kimi", container_tool="docker"),
            "docker:kimi",
            "docker's kimi",
        ),
        (
            LogTraces(stderr=TERMINAL, container=DOCKER, container_name="kimi", container_tool="podman"),
            "docker:kimi",
            "podman's kimi",
        ),
        (
            LogTraces(stderr=PIPE, container=DOCKER, container_problem="docker does not answer this user"),
            None,
            "container 3f2a3f2a3f2a, and docker does not answer this user",
        ),
        (LogTraces(stderr=PIPE, container=DOCKER), None, "no docker and no podman is here"),
        (
            LogTraces(stderr=PIPE, container=Container(id="a" * 64, runtime="kubernetes")),
            None,
            "pod's container aaaaaaaaaaaa",
        ),
        (
            LogTraces(stderr=PIPE, container=Container(id="a" * 64, runtime="kubernetes"), container_file="/p.log"),
            "/p.log",
            "runtime writes",
        ),
        (
            LogTraces(stderr=SOCKET, journal=True, unit=Unit(name="sglang.service")),
            "journal:sglang.service",
            "it logs to the journal",
        ),
        (
            LogTraces(stderr=SOCKET, journal=True, unit=Unit(name="sglang.service", user=True)),
            "journal:user/sglang.service",
            "of its user",
        ),
        (LogTraces(unit=Unit(name="sglang.service"), owner="root"), "journal:sglang.service", "most likely"),
        (LogTraces(stderr=SOCKET, journal=True), None, "outside of any unit"),
        (LogTraces(stderr=SOCKET), None, "a socket of whoever started it"),
        (LogTraces(stderr=TERMINAL), None, "goes to a terminal and is kept nowhere"),
        (LogTraces(stderr=TERMINAL, stdout=FILE), None, "only its standard output goes to /var/log/sglang.log"),
        (LogTraces(stderr=Outlet(kind="null"), stdout=FILE), None, "thrown away"),
        (
            LogTraces(stderr=TERMINAL, stdout=FILE, own_logging=True, place="/var/log/sglang.log"),
            "/var/log/sglang.log",
            "standard output is redirected",
        ),
        (LogTraces(owner="ops"), None, "where it writes may be seen by ops and root only"),
        (LogTraces(stderr=Outlet(kind="other")), None, "cannot be followed"),
    ],
)
def test_the_log_of_every_outlet(traces: LogTraces, source: str | None, words: str) -> None:
    found = log_of(traces)
    assert found.source == source
    assert words in found.detail
    if source is None:
        assert found.fix


@pytest.mark.parametrize(
    ("words", "folder", "file"),
    [
        ("tee -a /var/log/sglang.log", None, "/var/log/sglang.log"),
        ("/usr/bin/tee sglang.log other.log", "/srv", "/srv/sglang.log"),
        ("tee -- -a", "/srv/", "/srv/-a"),
        ("tee sglang.log", None, None),
        ("tee -a", "/srv", None),
        ("tee /dev/tty", None, None),
        ("cat x", "/srv", None),
        ("", "/srv", None),
    ],
)
def test_what_tee_writes(words: str, folder: str | None, file: str | None) -> None:
    assert written_by_tee(words.split(), folder) == file


def test_of_several_files_the_one_that_grows_is_the_log() -> None:
    assert best_file([("/s/current", 5.0), ("/s/lock", 9.0), ("/s/@old", 3.0)]) == "/s/current"
    assert best_file([("/s/lock", 9.0)]) is None


KINDS = st.sampled_from(["file", "deleted", "null", "terminal", "pipe", "socket", "other", "unread"])
TRACES = st.builds(
    LogTraces,
    stderr=st.builds(Outlet, kind=KINDS, path=st.none() | st.just("/x")),
    stdout=st.builds(Outlet, kind=KINDS, path=st.none() | st.just("/y")),
    place=st.none() | st.just("/x"),
    readable=st.booleans(),
    journal=st.none() | st.booleans(),
    reader=st.none() | st.builds(Reader, pid=st.just(5), name=st.text(max_size=5), file=st.none() | st.just("/z")),
    own_logging=st.booleans(),
    unit=st.none() | st.builds(Unit, name=st.just("a.service"), user=st.booleans()),
    container=st.none() | st.just(DOCKER),
    container_name=st.none() | st.just("kimi"),
    container_tool=st.none() | st.sampled_from(["docker", "podman"]),
)


@given(TRACES)
def test_every_server_has_a_log_or_a_way_to_one(traces: LogTraces) -> None:
    found = log_of(traces)
    assert found.detail
    assert found.source is not None or found.fix
