"""What belongs to the repository: the files that git tracks, or all files where there is no git."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = {".git", ".venv", ".cache", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", "build", "dist"}


def tracked_paths(root: Path = ROOT) -> list[str]:
    """Paths inside the repository, with forward slashes, of files that exist."""
    if (root / ".git").exists():
        command = ["git", "-C", str(root), "-c", f"safe.directory={root}", "ls-files", "-z"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
        return [path for path in listed if path and (root / path).is_file()]
    return [
        path.relative_to(root).as_posix()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not NOT_OURS & set(path.relative_to(root).parts)
    ]


def tracked_texts(root: Path = ROOT) -> dict[str, str]:
    """The text of every tracked file that is text."""
    texts = {}
    for path in tracked_paths(root):
        data = (root / path).read_bytes()
        if b"\0" not in data[:8192]:
            texts[path] = data.decode("utf-8", "replace")
    return texts


def modules_under(folder: str, root: Path = ROOT) -> list[str]:
    """Names of the modules (not packages) that stand directly in a folder, sorted."""
    return sorted(path.stem for path in (root / folder).glob("*.py") if path.stem != "__init__")
