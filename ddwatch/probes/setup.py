"""What a server is set to, against the profile and against its last start as it is remembered in the state folder."""

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct
from platformdirs import user_state_dir

from ddwatch.core.arguments import Scalar, changes
from ddwatch.core.expectation.identity import identity_differences, identity_of, judged_differences, judged_of
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.records import ServerStart
from ddwatch.probes.findings import Finding
from ddwatch.probes.server import Facts

SCHEMA = "ddwatch.start/1"
LARGEST = 4 * 1024 * 1024
TOLD = 6
"""Differences that are named; of more only the number is said."""


def state_folder() -> Path:
    """Where the last start of each server is remembered."""
    return Path(user_state_dir("ddwatch", appauthor=False)) / "starts"


class Start(Struct, frozen=True, kw_only=True):
    """A server's arguments as they were found; withheld ones only as digests under a key of this machine."""

    schema: str = SCHEMA
    url: str
    at: str
    """When, ISO 8601 with offset."""
    version: str | None
    arguments: dict[str, Scalar]
    withheld: dict[str, str]


class Starts:
    """Remembered starts, a file per address, readable by the owner only."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder if folder is not None else state_folder()

    def digest_key(self) -> bytes:
        """Random bytes that stay on this machine, so that digests can be compared between checks and not guessed.

        Where the disk keeps nothing, bytes of this process.
        """
        path = self.folder / "digest-key"
        with suppress(OSError):
            key = path.read_bytes()
            if len(key) == 32:
                return key
        key = os.urandom(32)
        with suppress(OSError):
            _write(path, key)
        return key

    def _path(self, url: str) -> Path:
        return self.folder / f"{blake2b(url.encode(), digest_size=12).hexdigest()}.json"

    def recall(self, url: str) -> Start | None:
        """The last start seen at this address; None when there is none that can be read."""
        try:
            with self._path(url).open("rb") as file:
                found = msgspec.json.decode(file.read(LARGEST), type=Start)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return found if found.schema == SCHEMA and found.url == url else None

    def remember(self, start: Start) -> str | None:
        """Keeps a start; the reason when the disk would not."""
        try:
            _write(self._path(start.url), msgspec.json.encode(start))
        except OSError as error:
            return (error.strerror or type(error).__name__).lower()
        return None


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except OSError:
        with suppress(OSError):
            Path(name).unlink()
        raise


def differences(before: Start, facts: Facts) -> tuple[str, ...]:
    """What changed in the arguments since a start, in words."""
    old = ServerStart(at=0.0, arguments=before.arguments, withheld=before.withheld)
    new = ServerStart(at=0.0, arguments=facts.arguments, withheld=facts.withheld)
    found = list(changes(old, new))
    if before.version != facts.version:
        found.insert(0, f"version {before.version or '?'} → {facts.version or '?'}")
    return tuple(found)


def _listed(words: Sequence[str]) -> str:
    rest = len(words) - TOLD
    return ", ".join(words[:TOLD]) + (f" and {rest} more" if rest > 0 else "")


def against_start(before: Start | None, facts: Facts) -> Finding:
    """The argument diff; a change is told, never held against the server."""
    if before is None:
        return Finding(
            name="arguments", status="pass", detail="remembered for the next check; none was remembered before"
        )
    found = differences(before, facts)
    if not found:
        return Finding(name="arguments", status="pass", detail=f"the same as at the check of {before.at}")
    return Finding(name="arguments", status="pass", detail=f"since the check of {before.at}: {_listed(found)}")


def against_profile(profile: Profile | None, facts: Facts, url: str) -> list[Finding]:
    """Identity and judged setup; `url` is for the command that makes a profile."""
    make = f"ddwatch calibrate {url} -o FILE makes one"
    if profile is None:
        return [
            Finding(
                name="profile",
                status="unknown",
                detail="no profile is about this service",
                fix=f"{make}, then ddwatch check --profile FILE",
                verdict="learning",
            )
        ]
    other = [one.sentence() for one in identity_differences(profile.identity, identity_of(facts.arguments))]
    if other:
        return [
            Finding(
                name="profile",
                status="unknown",
                expected=profile.name,
                detail=f"{profile.name} is about another service: {_listed(other)}",
                fix=make,
                verdict="learning",
            )
        ]
    judged = [one.sentence() for one in judged_differences(profile.judged, judged_of(facts.arguments, facts.version))]
    if judged:
        return [
            Finding(
                name="profile",
                status="warn",
                expected=profile.name,
                detail=f"same service, another setup: {_listed(judged)}",
            )
        ]
    return [Finding(name="profile", status="pass", expected=profile.name, detail="same service, same setup")]
