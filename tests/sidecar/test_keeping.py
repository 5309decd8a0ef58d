"""What was learned survives the process, is kept apart by identity, and trouble with the disk costs nothing else."""

import stat
from pathlib import Path

import pytest
from ddwatch_sidecar.keeping import Keeper

from ddwatch.core.expectation.identity import Identity
from ddwatch.core.expectation.learning import SETTLING, Learner
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.profile_text import read_profile
from ddwatch.core.snapshot import Sample

KIMI = Identity(model="a/kimi", tp=8)
OTHER = Identity(model="a/kimi", tp=4)


def learned(identity: Identity = KIMI, samples: int = SETTLING + 20) -> Learner:
    learner = Learner(name="kimi", identity=identity)
    for i in range(samples):
        learner.see(
            Sample(
                at=float(i),
                batch=1,
                total_context_tokens=3000 + i,
                context_tokens=3000.0 + i,
                accept_length=2.9 + 0.01 * (i % 7),
                throughput=2.9 / 0.065,
                step_seconds=0.065 * (1 + 0.01 * (i % 5 - 2)),
            ),
            suspicious=False,
        )
    return learner


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def keeper(tmp_path: Path, told: list[str]) -> Keeper:
    return Keeper(told.append, states=tmp_path / "state", profiles=tmp_path / "profiles")


def test_what_was_learned_is_recalled_by_identity(keeper: Keeper, tmp_path: Path, told: list[str]) -> None:
    learner = learned()
    assert learner.profile is not None
    assert keeper.recall(KIMI) is None
    assert keeper.save(learner)
    again = Keeper(told.append, states=tmp_path / "state", profiles=tmp_path / "profiles").recall(KIMI)
    assert again is not None
    assert again.state() == learner.state()
    assert again.profile is not None
    assert again.profile.step_time == learner.profile.step_time
    assert keeper.recall(OTHER) is None
    assert told == []


def test_the_profile_can_be_read_by_the_commands(keeper: Keeper, tmp_path: Path) -> None:
    keeper.save(learned())
    (path,) = (tmp_path / "profiles").glob("learned-*.toml")
    assert isinstance(read_profile(path.read_text(encoding="utf-8")), Profile)


def test_files_are_for_their_owner_only(keeper: Keeper, tmp_path: Path) -> None:
    keeper.save(learned())
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_service_that_is_not_known_by_name_is_not_kept(keeper: Keeper, tmp_path: Path) -> None:
    assert not keeper.save(learned(Identity()))
    assert keeper.recall(Identity()) is None
    assert list(tmp_path.rglob("*.json")) == []


@pytest.mark.parametrize("content", [b"", b"not json", b'{"schema": "ddwatch.learner/9"}', b"\xff\x00"])
def test_a_spoiled_file_is_told_and_learning_begins_anew(keeper: Keeper, told: list[str], content: bytes) -> None:
    keeper.save(learned())
    keeper.path(KIMI).write_bytes(content)
    assert keeper.recall(KIMI) is None
    assert len(told) == 1
    assert "learning anew" in told[0]
    assert keeper.save(learned())
    assert keeper.recall(KIMI) is not None


def test_a_huge_file_is_not_read_into_memory(keeper: Keeper, told: list[str]) -> None:
    keeper.save(learned())
    with keeper.path(KIMI).open("r+b") as file:
        file.truncate(64 * 1024 * 1024)
    assert keeper.recall(KIMI) is None
    assert "too large" in told[0]


def test_a_folder_that_cannot_be_written_is_told_once(tmp_path: Path, told: list[str]) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way", encoding="utf-8")
    keeper = Keeper(told.append, states=blocked / "state", profiles=tmp_path / "profiles")
    assert not keeper.save(learned())
    assert not keeper.save(learned())
    assert len(told) == 1
    assert "kept in memory" in told[0]


def test_an_unreadable_file_is_told(keeper: Keeper, told: list[str]) -> None:
    keeper.save(learned())
    path = keeper.path(KIMI)
    path.unlink()
    path.mkdir()
    assert keeper.recall(KIMI) is None
    assert "cannot read" in told[0]


def test_a_full_disk_leaves_the_old_state_whole(keeper: Keeper, tmp_path: Path) -> None:
    keeper.save(learned())
    before = keeper.path(KIMI).read_bytes()
    names = sorted(path.name for path in (tmp_path / "state").iterdir())
    (tmp_path / "profiles").rename(tmp_path / "gone")
    (tmp_path / "profiles").write_text("in the way", encoding="utf-8")
    assert not keeper.save(learned(samples=SETTLING + 20))
    assert keeper.path(KIMI).read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == names


def test_removing_the_state_asks_to_relearn(keeper: Keeper) -> None:
    assert not keeper.forgotten(KIMI)
    keeper.save(learned())
    assert not keeper.forgotten(KIMI)
    keeper.path(KIMI).unlink()
    assert keeper.forgotten(KIMI)
    assert not keeper.forgotten(KIMI)


CARDS = Identity(model="a/kimi", tp=8, gpu="Card", gpu_count=8)
OTHER_CARDS = Identity(model="a/kimi", tp=8, gpu="Card", gpu_count=4)


def test_without_the_gpus_the_one_service_that_it_can_be_is_recalled(keeper: Keeper, told: list[str]) -> None:
    """NVML does not answer at this start, as after a driver update."""
    keeper.save(learned(CARDS))
    keeper.save(learned(OTHER))
    found = keeper.recall(KIMI)
    assert found is not None and found.identity == CARDS
    assert told == []


def test_of_two_that_it_can_be_none_is_recalled(keeper: Keeper) -> None:
    keeper.save(learned(CARDS))
    keeper.save(learned(OTHER_CARDS))
    assert keeper.recall(KIMI) is None
    found = keeper.recall(CARDS)
    assert found is not None and found.identity == CARDS


def test_a_spoiled_neighbour_is_passed_over(keeper: Keeper, told: list[str]) -> None:
    keeper.save(learned(CARDS))
    keeper.path(OTHER_CARDS).write_bytes(b"not json")
    found = keeper.recall(KIMI)
    assert found is not None and found.identity == CARDS
    assert told == []


def test_what_becomes_known_better_is_kept_under_its_fuller_name_only(keeper: Keeper, tmp_path: Path) -> None:
    learner = learned(KIMI)
    keeper.save(learner)
    learner.identify("kimi-8", CARDS)
    keeper.save(learner)
    assert [path.name for path in (tmp_path / "state").iterdir()] == [keeper.path(CARDS).name]
    assert len(list((tmp_path / "profiles").iterdir())) == 1
    assert not keeper.forgotten(KIMI)
    keeper.save(learned(OTHER))
    assert len(list((tmp_path / "state").iterdir())) == 2
