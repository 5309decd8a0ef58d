"""Control groups of containers and units, as kernels and runtimes write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.servers.cgroups import Container, Unit, container_of, unit_of

ID = "3f2a" * 16
OTHER = "b0b1" * 16


@pytest.mark.parametrize(
    ("text", "container"),
    [
        (f"0::/system.slice/docker-{ID}.scope\n", Container(id=ID, runtime="docker")),
        (f"12:memory:/docker/{ID}\n1:name=systemd:/docker/{ID}\n", Container(id=ID, runtime="docker")),
        (f"0::/system.slice/docker.service/docker/{ID}", Container(id=ID, runtime="docker")),
        (f"0::/machine.slice/libpod-{ID}.scope/container", Container(id=ID, runtime="podman")),
        (
            f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope",
            Container(id=ID, runtime="podman"),
        ),
        (
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope",
            Container(id=ID, runtime="kubernetes"),
        ),
        (f"4:cpu:/kubepods/burstable/pod0/{ID}", Container(id=ID, runtime="kubernetes")),
        (f"0::/docker/{OTHER}/docker/{ID}", Container(id=ID, runtime="docker")),
        (f"0::/ecs/task/{ID}", Container(id=ID, runtime="container")),
        ("0::/system.slice/sglang.service", None),
        (f"0::/x/{ID[:32]}", None),
        ("", None),
        ("nonsense", None),
    ],
)
def test_containers(text: str, container: Container | None) -> None:
    assert container_of(text) == container


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("0::/system.slice/sglang.service\n", Unit(name="sglang.service")),
        ("0::/system.slice/system-sglang.slice/sglang@kimi.service", Unit(name="sglang@kimi.service")),
        ("0::/system.slice/sglang\\x2dbig.service/payload", Unit(name="sglang\\x2dbig.service")),
        ("12:pids:/x\n1:name=systemd:/system.slice/sglang.service\n", Unit(name="sglang.service")),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/sglang.service",
            Unit(name="sglang.service", user=True),
        ),
        ("0::/user.slice/user-1000.slice/session-3.scope", None),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-7.scope", None),
        ("0::/system.slice/ssh.service", None),
        ("0::/system.slice/cron.service", None),
        ("0::/system.slice/slurmd.service", None),
        ("0::/", None),
        ("", None),
    ],
)
def test_units(text: str, unit: Unit | None) -> None:
    assert unit_of(text) == unit


@given(st.text(max_size=300))
def test_no_text_is_too_strange(text: str) -> None:
    container_of(text)
    unit_of(text)
