"""What is shipped for the GPU host: the unit is hardened, settings and the examples for others are accepted."""

import re
import subprocess
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path

import pytest
from ddwatch_sidecar.cli import parser
from ddwatch_sidecar.config import DEFAULT_CATCH_UP_MIB, DEFAULT_LISTEN, READINGS, Settings, settle

from ddwatch.commands.alert_rules import ALERTS
from ddwatch.core.exits import Exit

DEPLOY = Path(__file__).parent.parent.parent / "sidecar" / "deploy"


def unit() -> ConfigParser:
    found = ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(DEPLOY / "ddwatch-sidecar.service")
    return found


def test_the_unit_starts_the_command_with_words_that_it_knows() -> None:
    program, *words = unit()["Service"]["ExecStart"].split()

    assert Path(program).name == "ddwatch-sidecar"
    assert parser().parse_args(words).config == "/etc/ddwatch/sidecar.toml"


def test_the_unit_does_not_try_again_what_cannot_work() -> None:
    codes = unit()["Service"]["RestartPreventExitStatus"].split()

    assert {int(code) for code in codes} == {Exit.USAGE, Exit.INPUT}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("CapabilityBoundingSet", ""),
        ("DynamicUser", "yes"),
        ("PrivateTmp", "yes"),
        ("MemoryDenyWriteExecute", "yes"),
        ("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX"),
    ],
)
def test_the_unit_gives_away_what_is_not_needed(key: str, value: str) -> None:
    assert unit()["Service"][key] == value


def test_the_unit_bounds_what_a_fault_of_ours_may_take() -> None:
    service = unit()["Service"]

    assert service["MemoryMax"] == "256M" and service["CPUQuota"] == "25%" and service["Nice"] == "10"


def test_the_example_settings_are_accepted_and_say_the_defaults() -> None:
    found = settle({}, {}, str(DEPLOY / "sidecar.toml"))

    assert found == Settings(log=("/var/log/sglang/server.log",), listen=DEFAULT_LISTEN, catch_up=DEFAULT_CATCH_UP_MIB)


def test_settings_that_are_commented_out_exist() -> None:
    text = (DEPLOY / "sidecar.toml").read_text()
    offered = {line[2:].split(" = ")[0] for line in text.splitlines() if line.startswith("# ") and " = " in line}

    assert offered and offered <= set(READINGS)


def test_promtool_accepts_the_scrape_example(needs_command: Callable[[str], Path]) -> None:
    result = subprocess.run(
        [needs_command("promtool"), "check", "config", str(DEPLOY / "prometheus.yml")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


ALERTMANAGER = DEPLOY / "alertmanager.yml"


def test_amtool_accepts_the_routing_example(needs_command: Callable[[str], Path], tmp_path: Path) -> None:
    text = ALERTMANAGER.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.strip().startswith("# Or ")]
    offered = tmp_path / "offered.yml"
    offered.write_text("\n".join(line.replace("    # ", "    ") for line in lines), encoding="utf-8")
    assert "slack_configs" not in [line.strip() for line in lines] and "\n    slack_configs" in offered.read_text()

    for path in (ALERTMANAGER, offered):
        result = subprocess.run(
            [needs_command("amtool"), "check-config", str(path)],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(("severity", "receiver"), [("page", "pages"), ("notice", "notices"), ("info", "nobody")])
def test_each_severity_goes_where_it_should(severity: str, receiver: str, needs_command: Callable[[str], Path]) -> None:
    assert severity in {alert.severity for alert in ALERTS}
    words = ("config", "routes", "test", f"--config.file={ALERTMANAGER}", f"severity={severity}")
    result = subprocess.run([needs_command("amtool"), *words], capture_output=True, text=True, timeout=30, check=False)
    assert (result.returncode, result.stdout.strip()) == (0, receiver), result.stderr


def test_alerts_that_the_routing_example_names_exist() -> None:
    named = set(re.findall(r'alertname="(\w+)"', ALERTMANAGER.read_text(encoding="utf-8")))

    assert named == {"DdwatchDown", "DdwatchSourceLost"} and named <= {alert.alert for alert in ALERTS}
