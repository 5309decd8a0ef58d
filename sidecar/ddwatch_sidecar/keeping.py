"""Keeps what was learned of each service in the state folder, so that a restart of either side forgets nothing."""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from ddwatch.core.expectation.fit import Refusal
from ddwatch.core.expectation.identity import Identity, joined, key_of
from ddwatch.core.expectation.learning import Learner
from ddwatch.core.expectation.profile_toml import write_profile
from ddwatch.profiles.shelf import LEARNED_PREFIX, learning_folder, own_folder

LARGEST_STATE = 16 * 1024 * 1024
STATES_AT_MOST = 64
"""Kept services that are looked through, newest first, when one is asked for that is not fully known."""


class _Named(Struct, frozen=True):
    """Whose a state is."""

    identity: Identity


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file that is either the old one or the new one, readable by its owner only; raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError:
        with suppress(OSError):
            Path(name).unlink()
        raise


class Keeper:
    """One folder of learning state, a file per identity."""

    def __init__(
        self,
        tell: Callable[[str], None],
        *,
        states: Path | None = None,
        profiles: Path | None = None,
    ) -> None:
        """Prepares to keep.

        Args:
            tell: narrates one sentence to the operator.
            states: folder of the learning state; the platform's when left out.
            profiles: folder of the operator's profiles; the platform's when left out.
        """
        self._tell = tell
        self._states = states if states is not None else learning_folder()
        self._profiles = profiles if profiles is not None else own_folder()
        self._troubled: str | None = None
        self._written: dict[Path, Identity] = {}

    def path(self, identity: Identity) -> Path:
        """The file that keeps what was learned of this service."""
        return self._states / f"{key_of(identity)}.json"

    def recall(self, identity: Identity) -> Learner | None:
        """What was learned before; None when there is nothing, or nothing that can be read (which is told).

        Of a service that is not fully known (NVML does not answer yet), the only one that it can be.
        """
        if identity.model is None:
            return None
        path = self.path(identity)
        if not path.exists():
            path = self._only_match(identity) or path
        try:
            data = _read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._tell(f"cannot read what was learned before ({path.name}: {_reason(error)}); learning anew")
            return None
        learner = (
            Learner.restored(data) if len(data) <= LARGEST_STATE else Refusal("the saved learning state is too large")
        )
        if isinstance(learner, Refusal):
            self._tell(f"{path.name}: {learner.sentence}; learning anew")
            return None
        self._written[path] = learner.identity
        return learner

    def _only_match(self, identity: Identity) -> Path | None:
        """The kept state that agrees with all that is known of a service, when there is exactly one."""
        found: list[Path] = []
        try:
            known = sorted(self._states.glob("*.json"), key=lambda path: -path.stat().st_mtime)
        except OSError:
            return None
        for path in known[:STATES_AT_MOST]:
            # What cannot be read matches nothing, and is told when it is asked for by name.
            with suppress(OSError, msgspec.DecodeError):
                if joined(msgspec.json.decode(_read(path), type=_Named).identity, identity) is not None:
                    found.append(path)
        return found[0] if len(found) == 1 else None

    def forgotten(self, identity: Identity) -> bool:
        """Whether the operator has asked to relearn: the state that was kept here has been removed."""
        path = self.path(identity)
        if path not in self._written or path.exists():
            return False
        self._written.pop(path)
        return True

    def save(self, learner: Learner) -> bool:
        """Keeps the state and the profile; False when the disk would not, which is told once per reason."""
        if learner.identity.model is None:
            return False
        path = self.path(learner.identity)
        try:
            write_whole(path, learner.state())
            if learner.profile is not None:
                text = write_profile(learner.profile)
                write_whole(self._profiles / f"{LEARNED_PREFIX}{key_of(learner.identity)}.toml", text.encode())
        except OSError as error:
            reason = _reason(error)
            if reason != self._troubled:
                self._tell(f"cannot keep what was learned ({reason}); it is kept in memory until that is mended")
            self._troubled = reason
            return False
        self._troubled = None
        self._drop_shorter(path, learner.identity)
        self._written[path] = learner.identity
        return True

    def _drop_shorter(self, path: Path, identity: Identity) -> None:
        """Removes what this watch kept of the same service while less was known of it."""
        for other, known in list(self._written.items()):
            if other != path and joined(known, identity) == identity:
                self._written.pop(other)
                with suppress(OSError):
                    other.unlink()
                    (self._profiles / f"{LEARNED_PREFIX}{other.stem}.toml").unlink()


def _read(path: Path) -> bytes:
    """The content of a state file, one byte more than the largest at most; raises OSError."""
    with path.open("rb") as file:
        return file.read(LARGEST_STATE + 1)


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
