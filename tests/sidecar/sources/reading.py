"""Short words for tests of sources: poll until nothing is ready, and look at what came."""

from collections.abc import Iterable
from typing import TypeVar

from ddwatch_sidecar.sources.contract import Item, Line, Source

from ddwatch.core.records import Gap, Rotation, SourceFault, SourceUp

T = TypeVar("T", bound=Item)


def read_on(source: Source, now: float) -> list[Item]:
    """One poll, and more at once as long as the source says that it is behind."""
    items = source.poll(now)
    for _ in range(100_000):
        if not source.behind:
            return items
        items += source.poll(now)
    raise AssertionError("the source stays behind")


def only(kind: type[T], items: Iterable[Item]) -> list[T]:
    return [item for item in items if isinstance(item, kind)]


def texts(items: Iterable[Item]) -> list[str]:
    return [item.data.decode() for item in items if isinstance(item, Line)]


def story(items: Iterable[Item]) -> list[str]:
    """The items in order: a line as its text (`half:` before what is not whole), anything else as its kind."""
    words: list[str] = []
    for item in items:
        match item:
            case Line(data=data, whole=whole):
                words.append(data.decode() if whole else f"half:{data.decode()}")
            case Gap(reason=reason):
                words.append(f"<gap {reason}>")
            case Rotation():
                words.append("<rotation>")
            case SourceFault(waiting=waiting):
                words.append("<waiting>" if waiting else "<fault>")
            case SourceUp():
                words.append("<up>")
    return words
