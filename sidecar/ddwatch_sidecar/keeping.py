"""Keeps what was learned of each service in the state folder, so that a restart of either side forgets nothing."""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ddwatch.core.expectation.fit import Refusal
from ddwatch.core.expectation.identity import Identity, key_of
from ddwatch.core.expectation.learning import Learner
from ddwatch.core.expectation.profile_toml import write_profile
from ddwatch.profiles.shelf import LEARNED_PREFIX, learning_folder, own_folder

LARGEST_STATE = 16 * 1024 * 1024


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
        self._written: set[Path] = set()

    def path(self, identity: Identity) -> Path:
        """The file that keeps what was learned of this service."""
        return self._states / f"{key_of(identity)}.json"

    def recall(self, identity: Identity) -> Learner | None:
        """What was learned before; None when there is nothing, or nothing that can be read (which is told)."""
        if identity.model is None:
            return None
        path = self.path(identity)
        try:
            with path.open("rb") as file:
                data = file.read(LARGEST_STATE + 1)
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
        self._written.add(path)
        return learner

    def forgotten(self, identity: Identity) -> bool:
        """Whether the operator has asked to relearn: the state that was kept here has been removed."""
        path = self.path(identity)
        if path not in self._written or path.exists():
            return False
        self._written.discard(path)
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
        self._written.add(path)
        return True


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
