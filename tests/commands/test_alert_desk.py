"""The file of acknowledgements and mutes: private, always whole, found by its mark, refused where it is foreign."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ddwatch.alert_desk import Desk, Unusable, desk_of, passing_name

NOW = 1_777_636_800.0
MUTE = (
    "import sys; from pathlib import Path; from ddwatch.alert_desk import Desk; desk = Desk(Path(sys.argv[1])); "
    "[desk.change(lambda orders: orders.acknowledged([('down', f'{sys.argv[2]}-{n}')], 1.0)) for n in range(20)]"
)


def test_it_is_made_once_private_and_whole(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "alerts" / "service.json")
    first = desk.prepare()

    assert desk.prepare() == first and first.orders == () and len(first.channel) == 16
    assert stat.S_IMODE(desk.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(desk.path.parent.stat().st_mode) == 0o700
    assert [path.name for path in desk.path.parent.iterdir()] == ["service.json"]


def test_a_change_is_read_back_by_another(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "service.json")
    desk.prepare()
    changed = desk.change(lambda orders: orders.muted("slow-step", NOW, NOW + 60, "maintenance"))

    assert Desk(desk.path).read() == changed and changed.orders[0].note == "maintenance"
    assert stat.S_IMODE(desk.path.stat().st_mode) == 0o600


def test_two_that_change_it_at_once_lose_nothing(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "service.json")
    desk.prepare()
    both = [subprocess.Popen([sys.executable, "-c", MUTE, str(desk.path), name]) for name in ("one", "two")]

    assert [process.wait(60) for process in both] == [0, 0]
    assert len({order.incident for order in desk.read().orders}) == 40


def test_it_is_found_by_its_mark_only(tmp_path: Path) -> None:
    one, two = Desk(tmp_path / "one.json"), Desk(tmp_path / "two.json")
    mark = one.prepare().channel
    two.prepare()
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")

    found = desk_of(mark, tmp_path)
    assert found is not None and found.path == one.path
    assert desk_of("another", tmp_path) is None
    assert desk_of(None, tmp_path) is None
    assert desk_of(mark, tmp_path / "nowhere") is None


def test_what_an_ended_sidecar_left_is_cleared_away(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(60)
    for process in (ended.pid, os.getpid()):
        Desk(tmp_path / f"{passing_name(process)}.json").prepare()
    old = Desk(tmp_path / "old.json")
    old.prepare()
    os.utime(old.path, (1.0, 1.0))
    Desk(tmp_path / "service.json").prepare()

    assert sorted(path.name for path in tmp_path.glob("*.json")) == [
        f"{passing_name(os.getpid())}.json",
        "service.json",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "service.json cannot be read"),
        ('{"schema": "ddwatch.alert-orders/9"}', "service.json is of schema 'ddwatch.alert-orders/9'"),
        (" " * 300_000, "service.json is too large to be what ddwatch writes"),
    ],
)
def test_another_file_is_refused_and_left_as_it_is(text: str, said: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path / "service.json")
    desk.path.write_text(text, encoding="utf-8")

    for use in (desk.read, desk.prepare, lambda: desk.change(lambda orders: orders)):
        with pytest.raises(Unusable) as refused:
            use()
        assert said in str(refused.value) and "\n" not in str(refused.value)
    assert desk.path.read_text(encoding="utf-8") == text


def test_a_folder_that_cannot_be_made_is_one_phrase(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(Unusable, match=r"service\.json: "):
        Desk(tmp_path / "file" / "service.json").prepare()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write for another user")
def test_what_root_writes_belongs_to_whom_the_folder_belongs(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)
    desk = Desk(tmp_path / "service.json")
    desk.prepare()

    assert (desk.path.stat().st_uid, desk.path.stat().st_gid) == (12345, 12345)
