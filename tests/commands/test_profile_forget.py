"""`ddwatch profile forget`: what was learned goes, state and profile, and nothing else does."""

from pathlib import Path

import pytest
from ddwatch_sidecar.keeping import Keeper

from ddwatch.core.exits import Exit
from ddwatch.core.expectation.identity import Identity, key_of
from tests.commands.documents import held_against
from tests.commands.said import said
from tests.sidecar.test_keeping import learned

KIMI = Identity(model="a/kimi", tp=8)


@pytest.fixture
def keeper(home: Path) -> Keeper:
    """The platform's folders, with one learned profile in them."""
    found = Keeper(lambda sentence: None)
    assert found.save(learned(KIMI))
    return found


def name() -> str:
    return f"learned-{key_of(KIMI)}"


def test_state_and_profile_are_gone_and_a_running_sidecar_notices(
    keeper: Keeper, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert name() in said(["profile", "list"], capsys).out
    assert not keeper.forgotten(KIMI)
    done = said(["profile", "forget", name(), "--json"], capsys)
    document = held_against("profile.json", done.out)
    assert done.code == Exit.OK
    assert len(document["removed"]) == 2
    assert not any(Path(path).exists() for path in document["removed"])
    assert keeper.forgotten(KIMI)
    assert keeper.recall(KIMI) is None
    assert name() not in said(["profile", "list"], capsys).out


def test_a_state_without_a_profile_can_be_forgotten(
    keeper: Keeper, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".local/share/ddwatch/profiles" / f"{name()}.toml").unlink()
    done = said(["profile", "forget", key_of(KIMI)], capsys)
    assert done.code == Exit.OK
    assert "learns this service anew" in done.out


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("learned-nonsense", "there is no learned profile learned-nonsense; learned are learned-"),
        ("kimi-k2.6-ddtree-8x-rtx-pro-6000", "was not learned by ddwatch"),
        ("../../etc/passwd", "there is no learned profile"),
    ],
)
def test_what_was_not_learned_stays(
    keeper: Keeper, wanted: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = said(["profile", "forget", wanted], capsys)
    assert done.code == Exit.INPUT
    assert sentence in done.err
    assert keeper.recall(KIMI) is not None


def test_a_name_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(["profile", "forget"], capsys).code == Exit.USAGE
