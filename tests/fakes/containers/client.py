"""A stand-in for the client: speaks the part of `docker` and `podman` that is documented and used here.

usage: client.py ROOT PROGRAM container inspect --format … NAME | PROGRAM logs [--follow] [--timestamps] …
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.fakes.containers.paper import Missing, found, messages, nanos_of


def option(words: list[str], name: str) -> str | None:
    """The value behind an option, which is taken out of the words."""
    if name not in words:
        return None
    place = words.index(name)
    value = words[place + 1]
    del words[place : place + 2]
    return value


def flag(words: list[str], name: str) -> bool:
    """Whether a flag is there; it is taken out of the words."""
    if name not in words:
        return False
    words.remove(name)
    return True


def refuse(sentence: str, code: int) -> None:
    """Ends as the client does."""
    sys.stderr.write(f"{sentence}\n")
    sys.exit(code)


def main(root: Path, program: str, words: list[str]) -> None:
    """One command line."""
    refusal = root / "refusal"
    if refusal.exists():
        refuse(refusal.read_text(encoding="utf-8"), 1)
    try:
        if words[:2] == ["container", "inspect"]:
            assert words[2:4] == ["--format", "{{.Id}} {{json .State}}"], words
            _, state = found(root, words[4])
            sys.stdout.write(f"{state['Id']} {json.dumps(state['State'])}\n")
            return
        assert words[0] == "logs", words
        tail = option(words, "--tail")
        since = option(words, "--since")
        follow, timestamps = flag(words, "--follow"), flag(words, "--timestamps")
        assert timestamps and len(words) == 2, words
        told = messages(
            root,
            words[1],
            follow=follow,
            since=nanos_of(since) if since else 0,
            tail=int(tail) if tail not in (None, "all") else None,
        )
        for stream, data in told:
            if data:
                os.write(1 if stream == "stdout" else 2, data)
    except Missing as missing:
        if program == "podman":
            refuse(f'Error: no container with name or ID "{missing}" found: no such container', 125)
        refuse(f"Error response from daemon: No such container: {missing}", 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
