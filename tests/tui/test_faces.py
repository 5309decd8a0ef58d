"""Every face of the screen at the sizes that matter: as text that a reviewer can read, and a few as pictures."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ddwatch.core.records import SourceFault
from ddwatch.core.snapshot import Frame
from tests.conftest import Golden
from tests.tui import frames, gpu_frames, model_frames
from tests.tui.picture import FAULT, Told
from tests.tui.screen import watched

FOLDER = Path(__file__).parent.parent / "golden" / "screen"
SIZES = ((60, 16), (80, 24), (120, 40))
OTHER = SourceFault(
    at=0.0,
    source="sidecar",
    reason="the sidecar at http://127.0.0.1:9477: the sidecar speaks ddwatch.stream/2, this ddwatch reads "
    "ddwatch.stream/1: install the same version on both; trying again",
)


def nothing() -> Sequence[Frame | SourceFault]:
    return ()


def of(story: Callable[[], Frame], *more: SourceFault) -> Callable[[], Sequence[Frame | SourceFault]]:
    return lambda: (story(), *more)


FACES: dict[str, tuple[Callable[[], Sequence[Frame | SourceFault]], str]] = {
    "waiting": (nothing, "waiting for the first data"),
    "learning": (of(frames.founding), "● live"),
    "as-expected": (of(model_frames.founding_end), "as expected"),
    "slow": (of(model_frames.slow), "SLOW STEP"),
    "outside": (of(model_frames.outside), "learning"),
    "uncalibrated": (of(model_frames.uncalibrated_slow), "learning"),
    "dp8": (of(model_frames.dp8), "SIMULATED"),
    "idle": (of(frames.idle), "idle"),
    "warming": (of(frames.warming), "warming"),
    "source-lost": (of(frames.source_lost), "BLIND"),
    "crash": (of(frames.crash), "DOWN"),
    "gpus": (of(gpu_frames.loaded), "as expected"),
    "gpus-throttled": (of(gpu_frames.throttled), "too hot"),
    "gpus-lost": (of(gpu_frames.lost), "lost"),
    "gpus-stale": (of(gpu_frames.stale), "not read"),
    "gpus-sixteen": (of(gpu_frames.sixteen), "too hot"),
    "sidecar-gone": (of(frames.founding, FAULT), "NO DATA"),
    "other-version": (lambda: (OTHER,), "NO DATA"),
}
"""Name -> what the feed says, and the words that show that it has arrived."""

PICTURES = (
    ("outside", (80, 24), ("4",)),
    ("as-expected", (80, 24), ()),
    ("as-expected", (120, 40), ()),
    ("slow", (80, 24), ()),
    ("slow", (120, 40), ()),
    ("dp8", (120, 40), ()),
    ("gpus-throttled", (120, 40), ()),
    ("gpus-throttled", (120, 40), ("g",)),
    ("sidecar-gone", (80, 24), ()),
    ("slow", (50, 8), ()),
    ("learning", (80, 24), ("question_mark",)),
    ("slow", (80, 24), ("x",)),
)
"""At most a dozen: face, size, keys."""


def stem_of(name: str, size: tuple[int, int], keys: tuple[str, ...]) -> str:
    return "-".join((name, f"{size[0]}x{size[1]}", *keys))


@pytest.mark.parametrize("name", FACES)
def test_a_face_looks_as_it_was_reviewed(name: str, golden: Golden) -> None:
    items, words = FACES[name]
    pictures = [(size, keys) for face, size, keys in PICTURES if face == name]

    async def story() -> dict[str, str]:
        found = {}
        async with watched(Told(*items()), *SIZES[0]) as screen:
            for size in dict.fromkeys((*SIZES, *(size for size, _ in pictures))):
                await screen.pilot.resize_terminal(*size)
                await screen.until(lambda size=size: screen.app.size == size)  # type: ignore[misc]
                await screen.reads(words)
                if size in SIZES:
                    found[f"{stem_of(name, size, ())}.txt"] = screen.text() + "\n"
                for keys in [keys for at, keys in pictures if at == size]:
                    await screen.press(*keys)
                    await screen.until(screen.settled)
                    await screen.pilot.pause()
                    found[f"{stem_of(name, size, keys)}.svg"] = screen.app.export_screenshot(simplify=False)
                    await screen.press(*keys)
        return found

    for file, text in asyncio.run(story()).items():
        golden.check(FOLDER / file, text)


def test_there_are_few_pictures_and_none_is_left_over() -> None:
    assert len(PICTURES) <= 12
    named = {stem_of(*picture) for picture in PICTURES}
    assert {path.stem for path in FOLDER.glob("*.svg")} == named
    assert {path.stem for path in FOLDER.glob("*.txt")} == {f"{name}-{w}x{h}" for name in FACES for w, h in SIZES}
