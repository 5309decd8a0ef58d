"""What docker, podman and Kubernetes say of a container, and what they say instead."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ddwatch.core.servers.cgroups import Container
from ddwatch.discovery.containers import Ran, Runtimes, Told, ran

ID = "3f2a" * 16
BRIDGE = (
    '{"IPAddress":"","Ports":{"30000/tcp":[{"HostIp":"0.0.0.0","HostPort":"31000"},{"HostIp":"::","HostPort":"31000"}],'
    '"9000/udp":[{"HostIp":"","HostPort":"9"}],"8080/tcp":null},"Networks":{"ours":{"IPAddress":"172.18.0.2"}}}'
)


def runtimes(answers: dict[str, Ran], asked: list[Sequence[str]] | None = None) -> Runtimes:
    def run(words: Sequence[str]) -> Ran:
        if asked is not None:
            asked.append(words)
        return answers[words[0]]

    return Runtimes(which=lambda name: name if name in answers else None, run=run)


def test_a_name_and_the_way_in() -> None:
    told = runtimes({"docker": Ran(0, f"/kimi\tjson-file\t{BRIDGE}\n")}).ask(Container(id=ID, runtime="docker"))
    assert told == Told(
        name="kimi", tool="docker", published={30000: ("0.0.0.0", 31000)}, address="172.18.0.2", host_network=False
    )


def test_nothing_is_asked_that_holds_secrets() -> None:
    asked: list[Sequence[str]] = []
    runtimes({"docker": Ran(0, f"/kimi\tlocal\t{BRIDGE}\n")}, asked).ask(Container(id=ID))
    assert "Env" not in " ".join(asked[0])
    assert "{{json .}}" not in asked[0]


def test_podmans_containers_are_asked_of_podman_first() -> None:
    asked: list[Sequence[str]] = []
    answers = {"docker": Ran(1, "", "No such object"), "podman": Ran(0, "kimi\tk8s-file\t{}\n")}
    told = runtimes(answers, asked).ask(Container(id=ID, runtime="podman"))
    assert (told.name, told.tool, [words[0] for words in asked]) == ("kimi", "podman", ["podman"])
    told = runtimes(answers, asked).ask(Container(id=ID, runtime="container"))
    assert told.tool == "podman"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Ran(1, "", "permission denied while trying to connect"), "sudo usermod -aG docker $USER"),
        (Ran(1, "", "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?"), "not reached"),
        (Ran(1, "", "Error: No such object"), "does not know it"),
        (Ran(None), "does not answer"),
        (Ran(0, "/kimi\tnone\t{}"), "log driver none"),
        (Ran(0, "/--kimi\tlocal\t{}"), "log driver none"),
        (Ran(0, "garbage"), "does not know it"),
    ],
)
def test_why_a_container_stays_unknown(answer: Ran, problem: str) -> None:
    told = runtimes({"docker": answer}).ask(Container(id=ID, runtime="docker"))
    assert told.name is None
    assert problem in (told.problem or "")


def test_answers_of_other_shapes_are_survived() -> None:
    for settings in ("[]", "{", "null", '{"Ports":[1],"Networks":[]}', '{"Ports":{"x/tcp":[{}],"1/tcp":["y"]}}'):
        told = runtimes({"docker": Ran(0, f"/kimi\tlocal\t{settings}")}).ask(Container(id=ID))
        assert (told.name, told.published, told.address) == ("kimi", {}, None), settings


def test_no_tool_is_no_answer() -> None:
    assert runtimes({}).ask(Container(id=ID)) == Told()


def test_a_pods_log_is_read_where_its_node_keeps_it(tmp_path: Path) -> None:
    found = Runtimes(pod_logs=tmp_path)
    assert found.ask(Container(id=ID, runtime="kubernetes")) == Told()
    log = tmp_path / f"kimi-0_default_sglang-{ID}.log"
    log.touch()
    assert found.ask(Container(id=ID, runtime="kubernetes")).file == str(log)


def test_real_commands() -> None:
    assert ran(["sh", "-c", "echo out; echo err >&2; exit 3"]) == Ran(3, "out\n", "err\n")
    assert ran(["/nonexistent/docker"]) == Ran(None)
