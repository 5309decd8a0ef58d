"""The container file and the compose example: what they name exists, what they run is understood, little is open."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from ddwatch_sidecar.cli import parser
from ddwatch_sidecar.config import DEFAULT_LISTEN

from tests.conftest import ROOT
from tests.sidecar.running import running

DEPLOY = ROOT / "sidecar" / "deploy"
INSTRUCTIONS = {
    *("FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE"),
    *("STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"),
}
LIMITS = {"deploy", "cpus", "mem_limit", "pids_limit"}
SERVICE_KEYS = LIMITS | {
    *("build", "image", "network_mode", "pid", "restart", "command", "volumes", "group_add", "read_only", "tmpfs"),
    *("cap_drop", "security_opt", "profiles", "environment", "configs"),
}
"""Words of the compose specification that the example uses."""


class Line(NamedTuple):
    """One instruction of a container file."""

    word: str
    flags: dict[str, str]
    rest: str


def read(text: str) -> list[Line]:
    """The instructions of a container file; a word that is none fails."""
    found = []
    joined = re.sub(r"\\\n", " ", text)
    for line in joined.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, rest = line.split(maxsplit=1)
        assert word in INSTRUCTIONS, f"{word} is no instruction"
        flags = {}
        while flag := re.match(r"--([a-z-]+)=(\S+)\s+", rest):
            flags[flag[1]] = flag[2]
            rest = rest[flag.end() :]
        found.append(Line(word, flags, rest))
    return found


def containerfile() -> list[Line]:
    return read((DEPLOY / "Containerfile").read_text(encoding="utf-8"))


def of(word: str) -> list[Line]:
    return [line for line in containerfile() if line.word == word]


def compose(*, offered: bool = False) -> dict[str, Any]:
    """The example, also with what it offers in comments."""
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    if offered:
        text = re.sub(
            r"^    # (deploy:\n(?:    #  .*\n)+)", lambda found: uncommented(found[1]), text, flags=re.MULTILINE
        )
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def uncommented(text: str) -> str:
    return "    " + text.replace("    # ", "    ")


def test_what_is_copied_exists_and_is_let_into_the_build() -> None:
    let_in = {
        line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")
    }
    copied = [word for line in of("COPY") if "from" not in line.flags for word in line.rest.split()[:-1]]

    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert name.split("/")[0] in let_in, name
    assert {"pyproject.toml", "README.md", "ddwatch"} <= set(copied)


def test_stages_are_named_before_they_are_copied_from() -> None:
    stages = [line.rest.split(" AS ")[-1] for line in of("FROM") if " AS " in line.rest]

    assert stages == [line.flags["from"] for line in of("COPY") if "from" in line.flags] == ["build"]
    assert len({line.rest.split(" AS ")[0] for line in of("FROM")}) == 1


def test_the_image_runs_the_sidecar_as_nobody_special() -> None:
    (entry,), (words,), (user,) = of("ENTRYPOINT"), of("CMD"), of("USER")

    assert json.loads(entry.rest) == ["ddwatch-sidecar"]
    assert parser().parse_args(json.loads(words.rest)).config == "/etc/ddwatch/sidecar.toml"
    assert user.rest == "ddwatch" and any(f" {user.rest}" in line.rest for line in of("RUN"))
    assert containerfile().index(user) > max(containerfile().index(line) for line in of("RUN"))


def test_the_port_is_the_one_that_it_listens_on() -> None:
    (port,) = of("EXPOSE")

    assert port.rest == DEFAULT_LISTEN.rsplit(":", 1)[1]


def test_the_python_of_the_image_is_one_that_the_package_says() -> None:
    version = re.search(r"python:(3\.\d+)", of("FROM")[0].rest)

    assert version is not None
    assert f"Programming Language :: Python :: {version[1]}" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_health_check_tells_a_living_sidecar_from_a_dead_one(tmp_path: Path) -> None:
    (check,) = of("HEALTHCHECK")
    program, *words = json.loads(check.rest.removeprefix("CMD "))
    assert program == "python"
    (tmp_path / "server.log").touch()
    with running("--log", str(tmp_path / "server.log"), "--no-record", "--no-learn") as sidecar:
        asked = [word.replace(f"http://{DEFAULT_LISTEN}", sidecar.url) for word in words]
        assert asked != words

        def healthy() -> bool:
            return (
                subprocess.run([sys.executable, *asked], capture_output=True, timeout=30, check=False).returncode == 0
            )

        assert healthy()
        sidecar.end()
        assert not healthy()


def test_a_word_that_is_no_instruction_is_seen() -> None:
    with pytest.raises(AssertionError, match="RUNN"):
        read("FROM python\nRUNN ls\n")


def test_the_compose_file_says_what_compose_knows() -> None:
    for found in (compose(), compose(offered=True)):
        assert set(found) == {"name", "services", "configs", "volumes"}
        for name, service in found["services"].items():
            assert set(service) <= SERVICE_KEYS, name
            assert ("build" in service) == (name == "sidecar")
    offered = compose(offered=True)["services"]["sidecar"]["deploy"]["resources"]["reservations"]["devices"]
    assert offered == [{"driver": "nvidia", "count": "all", "capabilities": ["utility"]}]


def test_what_the_compose_file_mounts_exists() -> None:
    found = compose()
    for name, service in found["services"].items():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            if source.startswith("./"):
                assert (DEPLOY / source).is_file(), (name, source)
                assert volume.endswith(":ro"), volume
            elif not source.startswith("/"):
                assert source in found["volumes"], (name, source)
        for given in service.get("configs", ()):
            assert yaml.safe_load(found["configs"][given["source"]]["content"])["apiVersion"] == 1
    build = found["services"]["sidecar"]["build"]
    assert (DEPLOY / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()


def test_no_service_of_the_compose_file_may_more_than_it_needs() -> None:
    services = compose()["services"]
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"], name
        assert not {"privileged", "cap_add", "ports"} & set(service), name
    assert services["sidecar"]["read_only"] is True
    # All share this host's network, so each must keep to loopback itself.
    assert any("--web.listen-address=127.0.0.1:" in word for word in services["prometheus"]["command"])
    assert services["grafana"]["environment"]["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"


def test_the_sidecar_of_the_compose_file_is_bounded_like_that_of_the_unit() -> None:
    service = compose()["services"]["sidecar"]
    unit = (DEPLOY / "ddwatch-sidecar.service").read_text(encoding="utf-8")

    assert f"CPUQuota={service['cpus'] * 100:.0f}%" in unit
    assert f"MemoryMax={service['mem_limit'].upper()}" in unit
    assert f"TasksMax={service['pids_limit']}" in unit


def test_grafana_asks_the_prometheus_beside_it() -> None:
    found = compose()
    source = yaml.safe_load(found["configs"]["grafana-source"]["content"])["datasources"][0]
    (listen,) = [word for word in found["services"]["prometheus"]["command"] if "listen-address" in word]
    provider = yaml.safe_load(found["configs"]["grafana-dashboards"]["content"])["providers"][0]
    mounted = [volume.split(":")[1] for volume in found["services"]["grafana"]["volumes"]]

    assert source["type"] == "prometheus" and source["url"] == f"http://{listen.split('=')[1]}"
    assert any(place.startswith(provider["options"]["path"] + "/") for place in mounted)


def test_the_words_of_the_commands_at_the_top_name_these_files() -> None:
    for name in ("Containerfile", "compose.yaml"):
        text = (DEPLOY / name).read_text(encoding="utf-8")
        named = re.findall(r"-f (sidecar/deploy/\S+)", text)
        assert named == [f"sidecar/deploy/{name}"]
