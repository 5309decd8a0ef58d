"""Real processes that look like SGLang from outside are found, with their port, their log and their words."""

import os
import pty
import signal
import socket
import sys
from pathlib import Path

import pytest

from ddwatch.core.servers.found import FoundServer
from ddwatch.discovery.asking import ask
from ddwatch.discovery.find import Found, find
from ddwatch.discovery.machine import Machine
from tests.e2e.waiting import until
from tests.fakes.standing_in import Standing, free_port, proc_of, standing_in

ID = "3f2a" * 16


def look(tmp_path: Path, *servers: Standing, groups: dict[int, str] | None = None) -> Found:
    pids = [pid for server in servers for pid in server.family()]
    return find(Machine(proc_of(tmp_path / "proc", *pids, groups=groups)))


def only(found: Found) -> FoundServer:
    (server,) = found.servers
    return server


def test_a_server_with_a_redirected_log(tmp_path: Path) -> None:
    """Also its version, from what pip left beside its interpreter."""
    log = tmp_path / "sglang.log"
    installed = tmp_path / "venv" / "lib" / "python3.11" / "site-packages" / "sglang-0.5.22.dist-info"
    installed.mkdir(parents=True)
    python = tmp_path / "venv" / "bin" / "python3"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    words = ("--model-path", "/models/Kimi-K2.6", "--tp-size", "2", "--api-key", "sk-secret", "--enable-metrics")
    with log.open("ab") as file, standing_in(*words, title=str(python), stdout=file, stderr=file) as server:
        found = look(tmp_path, server)
    one = only(found)
    assert (one.pid, one.url, one.listening) == (server.pid, server.url, True)
    assert (one.log.source, one.log.fix) == (str(log), None)
    assert (one.name, one.schedulers, one.metrics, one.version) == ("Kimi-K2.6", 2, True, "0.5.22")
    assert one.wants_key
    assert "sk-secret" not in repr(found)
    assert found.looked_at >= 4


@pytest.mark.parametrize(
    ("shell", "name"),
    [
        ("SERVER 2>&1 | tee -a server.log", "server.log"),
        ("SERVER 2>&1 | tee server.log >/dev/null", "server.log"),
        ("SERVER 2>&1 | grep --line-buffered Decode | tee -a only.log >/dev/null", "only.log"),
        ("SERVER 2>&1 | cat >> plain.log", "plain.log"),
        ("SERVER > >(tee -a both.log >/dev/null) 2>&1", "both.log"),
        ("SERVER >/dev/null 2> errors.log", "errors.log"),
    ],
)
def test_a_pipe_is_followed_to_the_file_that_its_reader_writes(tmp_path: Path, shell: str, name: str) -> None:
    with standing_in(shell=shell, cwd=tmp_path) as server:
        one = only(look(tmp_path, server))
    assert one.log.source == str(tmp_path / name)


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("SERVER >/dev/null 2>&1", "thrown away"),
        ("SERVER 2>&1 | cat >/dev/null", "read by cat (pid "),
    ],
)
def test_a_log_that_is_kept_nowhere_is_said_with_what_helps(tmp_path: Path, shell: str, words: str) -> None:
    with standing_in(shell=shell, cwd=tmp_path) as server:
        one = only(look(tmp_path, server))
    assert one.log.source is None
    assert words in one.log.detail
    assert one.log.fix
    assert one.url == server.url


def test_a_terminal_keeps_no_log(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        with standing_in(stdout=theirs, stderr=theirs) as server:
            one = only(look(tmp_path, server))
    finally:
        os.close(ours)
        os.close(theirs)
    assert "goes to a terminal" in one.log.detail


def test_a_file_that_was_renamed_is_followed_and_one_that_was_deleted_is_said(tmp_path: Path) -> None:
    log = tmp_path / "sglang.log"
    with log.open("ab") as file, standing_in(stdout=file, stderr=file) as server:
        log.rename(tmp_path / "sglang.log.1")
        renamed = only(look(tmp_path, server)).log
        (tmp_path / "sglang.log.1").unlink()
        machine = Machine(tmp_path / "proc")
        deleted = only(find(machine)).log
        assert deleted.source is not None
        assert b"Decode batch" in Path(deleted.source).read_bytes()
    assert renamed.source == str(tmp_path / "sglang.log.1")
    assert "was deleted" in deleted.detail


def test_a_journal_is_known_by_its_socket_and_named_by_its_unit(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        state = os.fstat(theirs.fileno())
        environment = {"JOURNAL_STREAM": f"{state.st_dev}:{state.st_ino}"}
        with standing_in(environment=environment, stdout=theirs.fileno(), stderr=theirs.fileno()) as server:
            one = only(look(tmp_path, server, groups={server.pid: "0::/system.slice/sglang.service\n"}))
    assert one.log.source == "journal:sglang.service"
    assert one.log.detail.startswith("it logs to the journal")


def test_a_container_is_asked_for_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    docker = tools / "docker"
    docker.write_text('#!/bin/sh\nprintf \'/kimi\\tjson-file\\t{"Networks":{"host":{}}}\\n\'\n', encoding="utf-8")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    with standing_in(shell="SERVER 2>&1 | cat >/dev/null") as server:
        group = f"0::/system.slice/docker-{ID}.scope\n"
        one = only(look(tmp_path, server, groups={server.pid: group}))
    assert one.log.source == "docker:kimi"
    assert one.url == server.url


def test_a_container_that_nobody_may_ask_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho 'permission denied while trying to connect' >&2\nexit 1\n", encoding="utf-8")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with standing_in(shell="SERVER 2>&1 | cat >/dev/null") as server:
        one = only(look(tmp_path, server, groups={server.pid: f"0::/docker/{ID}\n"}))
    assert one.log.source is None
    assert "docker does not answer this user (sudo usermod -aG docker" in one.log.detail
    assert one.log.fix == f"sudo docker logs -f {ID[:12]} 2>&1 | ddwatch --log -"


@pytest.mark.parametrize(
    ("networks", "url", "note"),
    [
        ('"Ports":{"PORT/tcp":[{"HostIp":"0.0.0.0","HostPort":"31999"}]}', "http://127.0.0.1:31999", None),
        ('"Networks":{"ours":{"IPAddress":"172.18.0.2"}}', "http://172.18.0.2:PORT", None),
        ('"Networks":{}', None, "it listens on port PORT inside its container, which this host does not reach"),
    ],
)
def test_a_port_inside_a_container_is_reached_the_way_docker_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, networks: str, url: str | None, note: str | None
) -> None:
    with standing_in(shell="SERVER 2>&1 | cat >/dev/null") as server:
        text = networks.replace("PORT", str(server.port))
        docker = tmp_path / "docker"
        docker.write_text(f"#!/bin/sh\nprintf '/kimi\\tjson-file\\t{{{text}}}\\n'\n", encoding="utf-8")
        docker.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        proc = proc_of(tmp_path / "proc", *server.family(), groups={server.pid: f"0::/docker/{ID}\n"})
        network = proc / str(server.pid) / "ns"
        network.unlink()
        network.mkdir()
        (network / "net").symlink_to("net:[1]")
        one = only(find(Machine(proc), asking=lambda _: None))
    assert one.url == (None if url is None else url.replace("PORT", str(server.port)))
    assert one.listening is (None if url is None else True)
    assert one.log.source == "docker:kimi"
    assert note is None or note.replace("PORT", str(server.port)) in one.notes[0]


def test_several_at_once_are_told_apart_in_order_of_their_ports(tmp_path: Path) -> None:
    with standing_in("--served-model-name", "a") as first, standing_in("--served-model-name", "b") as second:
        found = look(tmp_path, first, second)
    expected = sorted([(first.port, "a"), (second.port, "b")])
    assert [(one.url, one.name) for one in found.servers] == [
        (f"http://127.0.0.1:{port}", name) for port, name in expected
    ]


def test_a_server_that_does_not_listen_yet(tmp_path: Path) -> None:
    with standing_in(mute=True) as server:
        one = only(look(tmp_path, server))
    assert (one.url, one.listening) == (server.url, False)
    assert "nothing listens" in one.notes[0]


def test_a_settings_file_beside_the_server_is_read(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "ours.yaml").write_text("served-model-name: from-file\nenable-metrics: true\n", encoding="utf-8")
    with standing_in("--config", "ours.yaml", port=port, cwd=tmp_path) as server:
        one = only(look(tmp_path, server))
    assert (one.name, one.metrics) == ("from-file", True)
    with standing_in("--config", "gone.yaml", cwd=tmp_path) as server:
        (tmp_path / "again").mkdir()
        one = only(look(tmp_path / "again", server))
    assert "--config file cannot be read" in one.notes[0]


def test_a_launcher_whose_words_are_lost_is_asked(tmp_path: Path) -> None:
    with standing_in(title="sglang::http_server") as server:
        one = only(look(tmp_path, server))
    assert (one.pid, one.url, one.name) == (server.pid, server.url, "told/by-itself")
    assert "api_key" not in one.arguments


def test_forward_passes_and_request_records_are_found_where_they_are(tmp_path: Path) -> None:
    records = tmp_path / "records"
    records.mkdir()
    passes = tmp_path / "fpm"
    words = ["--enable-forward-pass-metrics", "--passes", str(passes), "--export-metrics-to-file"]
    words += ["--export-metrics-to-file-dir", "records"]
    with standing_in(*words, cwd=tmp_path) as server:
        until(Path(f"{passes}.0").exists, "the socket of the forward passes")
        one = only(look(tmp_path, server))
    assert one.forward_passes == f"ipc://{passes}"
    assert one.request_records == str(records)


def test_children_without_a_server_are_left_over(tmp_path: Path) -> None:
    with standing_in() as server:
        children = [pid for pid in server.family() if pid != server.pid]
        found = find(Machine(proc_of(tmp_path / "proc", *children)))
    assert found.servers == ()
    assert found.leftovers == tuple(sorted(children))
    assert "left over" in found.none


def test_a_server_that_leaves_while_it_is_looked_at_is_no_server(tmp_path: Path) -> None:
    with standing_in("--model-path", "m") as server:
        machine = Machine(proc_of(tmp_path / "proc", *server.family()))
        seen = machine.processes()

        class Leaving(Machine):
            def processes(self) -> list:  # type: ignore[type-arg]
                os.kill(server.pid, signal.SIGKILL)
                server.process.wait()
                return seen

        assert find(Leaving(tmp_path / "proc")).servers == ()


def test_a_proc_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    found = find(Machine(tmp_path / "nowhere"))
    assert (found.servers, found.looked_at) == ((), 0)


def test_only_sglang_is_taken_for_an_answer() -> None:
    with standing_in() as server:
        answer = ask(server.url)
        assert answer is not None
        assert answer.arguments == {"model_path": "told/by-itself"}
    assert ask(server.url) is None
    assert ask("https://127.0.0.1:9") is None
