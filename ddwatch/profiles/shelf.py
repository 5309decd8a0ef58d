"""Finds and reads profiles: those that come with ddwatch, those in the operator's data folder, and any file."""

from importlib.resources import files
from pathlib import Path

from msgspec import Struct
from platformdirs import user_data_dir, user_state_dir

from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.expectation.profile import Problem, Profile
from ddwatch.core.expectation.profile_text import read_profile, sentence

FOUNDING = "kimi-k2.6-ddtree-8x-rtx-pro-6000"
LARGEST_FILE = 1_000_000
LEARNED_PREFIX = "learned-"
"""Profiles that ddwatch learned while running are called so, with the key of their identity behind."""


class Entry(Struct, frozen=True):
    """One profile on the shelf; built-in ones have no path."""

    name: str
    path: Path | None


def own_folder() -> Path:
    """Where the operator's profiles live on this platform."""
    return Path(user_data_dir("ddwatch", appauthor=False)) / "profiles"


def learning_folder() -> Path:
    """Where the sidecar keeps what it is learning, a file per identity; removing one makes it learn anew."""
    return Path(user_state_dir("ddwatch", appauthor=False)) / "learned"


def built_in_names() -> list[str]:
    """Names of the profiles that come with ddwatch."""
    found = files("ddwatch").joinpath("profiles").iterdir()
    return sorted(item.name.removesuffix(".toml") for item in found if item.name.endswith(".toml"))


def built_in_text(name: str) -> str:
    """The TOML text of a built-in profile."""
    return files("ddwatch").joinpath("profiles").joinpath(f"{name}.toml").read_text(encoding="utf-8")


class Shelf:
    """Profiles by name; the operator's own take precedence over built-in ones of the same name."""

    def __init__(self, folder: Path | None = None, learning: Path | None = None) -> None:
        self.folder = folder if folder is not None else own_folder()
        self._learning = learning if learning is not None else learning_folder()

    def own(self) -> list[Entry]:
        """The operator's profiles, the one written last first."""
        try:
            paths = [path for path in self.folder.iterdir() if path.suffix == ".toml" and path.is_file()]
            paths.sort(key=lambda path: (-path.stat().st_mtime, path.name))
        except OSError:
            return []
        return [Entry(path.stem, path) for path in paths]

    def entries(self) -> list[Entry]:
        """All profiles by name."""
        own = self.own()
        taken = {entry.name for entry in own}
        return [*own, *(Entry(name, None) for name in built_in_names() if name not in taken)]

    def find(self, wanted: str) -> Entry:
        """The profile of this name, or the file at this path.

        Raises CommandFailed with one sentence when there is neither.
        """
        for entry in self.entries():
            if entry.name == wanted:
                return entry
        path = Path(wanted)
        if path.is_dir():
            raise CommandFailed(f"{shown(wanted)} is a directory, not a profile", Exit.INPUT)
        if path.exists():
            return Entry(path.stem, path)
        known = ", ".join(entry.name for entry in self.entries())
        raise CommandFailed(f"there is no profile and no file {shown(wanted)}; profiles: {known}", Exit.INPUT)

    def text(self, entry: Entry) -> str:
        """The TOML text of an entry. Raises CommandFailed with one sentence when it cannot be read."""
        if entry.path is None:
            return built_in_text(entry.name)
        name = shown(str(entry.path))
        try:
            with entry.path.open("rb") as file:
                data = file.read(LARGEST_FILE + 1)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise CommandFailed(f"cannot read {name}: {reason}", Exit.INPUT) from error
        if len(data) > LARGEST_FILE:
            raise CommandFailed(f"{name} is not a profile: longer than {LARGEST_FILE} bytes", Exit.INPUT)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CommandFailed(f"{name} is not a profile: it is not UTF-8 text", Exit.INPUT) from error

    def read(self, entry: Entry) -> Profile | tuple[Problem, ...]:
        """The profile, or what is wrong with its text."""
        return read_profile(self.text(entry))

    def load(self, wanted: str | None) -> Profile:
        """The profile to work with: the one wanted, else the operator's newest, else the founding one.

        Raises CommandFailed with one sentence that names the offending key.
        """
        if wanted is None:
            own = self.own()
            entry = own[0] if own else Entry(FOUNDING, None)
        else:
            entry = self.find(wanted)
        profile = self.read(entry)
        if isinstance(profile, Profile):
            return profile
        name = entry.name if entry.path is None else shown(str(entry.path))
        raise CommandFailed(f"profile {name}: {sentence(profile)}", Exit.INPUT)

    def forget(self, wanted: str) -> list[Path]:
        """Removes a learned profile and what its learning would go on from; the files that are gone.

        Raises CommandFailed when nothing was learned under this name, or the disk does not let go.
        """
        key = wanted.removeprefix(LEARNED_PREFIX)
        profiles = {path.stem: path for path in self._files(self.folder, ".toml")}
        states = {path.stem: path for path in self._files(self._learning, ".json")}
        # The state goes first: a running sidecar that finds it gone learns anew and writes no old profile back.
        found = [states.get(key), profiles.get(f"{LEARNED_PREFIX}{key}")]
        if found == [None, None]:
            known = {name for name in profiles if name.startswith(LEARNED_PREFIX)}
            known |= {f"{LEARNED_PREFIX}{name}" for name in states}
            if wanted in profiles or wanted in built_in_names():
                raise CommandFailed(f"{shown(wanted)} was not learned by ddwatch, so there is nothing to relearn")
            listed = f"; learned are {', '.join(sorted(known))}" if known else "; nothing was learned on this machine"
            raise CommandFailed(f"there is no learned profile {shown(wanted)}{listed}")
        gone = []
        for path in found:
            if path is None:
                continue
            try:
                path.unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise CommandFailed(f"cannot remove {shown(str(path))}: {reason}") from error
            gone.append(path)
        return gone

    @staticmethod
    def _files(folder: Path, suffix: str) -> list[Path]:
        try:
            return [path for path in folder.iterdir() if path.suffix == suffix]
        except OSError:
            return []


def shown(path: str) -> str:
    """A path as a terminal may show it."""
    return "".join(character if character.isprintable() else "?" for character in path)
