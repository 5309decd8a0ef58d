"""Compiles the stand-in for the driver's library, once per user, so that a demo has cards wherever a C compiler is.

The library is for this machine's own pynvml; no driver and no card of this machine has a part in it.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml_stub.c")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-shared", "-fPIC", "-O1")
LIBRARIES = ("-lm", "-lpthread")
COMPILE_SECONDS = 60.0
NO_CARDS = "the simulated service has no GPUs here"
ELSE = "everything else works"


class NoLibrary(Exception):
    """There is no library; the message is one sentence for the operator."""


def compiler() -> str:
    """The C compiler of this machine; raises NoLibrary without one."""
    for name in COMPILERS:
        found = shutil.which(name)
        if found is not None:
            return found
    raise NoLibrary(f"{NO_CARDS}: their driver stub needs a C compiler (cc, gcc or clang); {ELSE}")


def compiled(command: str, target: Path, more: Sequence[str] = ()) -> None:
    """Writes the library to a path; raises NoLibrary when the compiler does not.

    Args:
        command: the compiler.
        target: where the library goes.
        more: further words for the compiler.
    """
    words = [command, *FLAGS, *more, "-o", str(target), str(SOURCE), *LIBRARIES]
    try:
        done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, timeout=COMPILE_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it did not end within {COMPILE_SECONDS:.0f} s"
        raise NoLibrary(f"{NO_CARDS}: {command} could not be used ({reason}); {ELSE}") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").splitlines()
        first = next((line for line in said if "error" in line.lower()), said[0] if said else "no reason given")
        words_shown = "".join(mark for mark in first if mark.isprintable())[:200]
        raise NoLibrary(f"{NO_CARDS}: {command} could not compile their driver stub ({words_shown}); {ELSE}")


def key() -> str:
    """What a compiled library belongs to: this source, these flags, this kind of machine."""
    parts = (*FLAGS, *LIBRARIES, sys.platform, platform.machine(), platform.libc_ver()[0])
    return hashlib.sha256(SOURCE.read_bytes() + "\0".join(parts).encode()).hexdigest()[:16]


def private(folder: Path) -> None:
    """Makes a folder that is this user's alone; raises OSError when it is not, or cannot be made so."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = folder.lstat()
    if folder.is_symlink() or state.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not this user's own folder")
    if state.st_mode & 0o077:
        folder.chmod(0o700)


def library(folders: Sequence[Path]) -> Path:
    """The compiled library in the first of these folders that can hold it; compiled if it is not there yet.

    Raises:
        NoLibrary: with the reason.
    """
    name = f"libnvidia-ml-{key()}.so"
    reason = "no folder to keep it in"
    for folder in folders:
        target = folder / name
        try:
            private(folder)
            if not target.is_file():
                _put(compiler(), target)
        except OSError as error:
            reason = error.strerror or str(error)
            continue
        return target
    raise NoLibrary(f"{NO_CARDS}: their driver stub cannot be kept ({reason}); {ELSE}")


def _put(command: str, target: Path) -> None:
    """Compiles beside the target and renames, so that nobody ever loads half a library."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".so")
    os.close(handle)
    try:
        compiled(command, Path(name))
        Path(name).chmod(0o700)
        Path(name).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
