"""`ddwatch doctor [URL]`: what can be observed here, from which source, and which flag or permission gives more."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddwatch.commands.discovering import DEFAULT_URL, look, sidecar_url
from ddwatch.commands.doctor_servers import looked_into, server_sights, sidecar_command
from ddwatch.commands.log_named import place_named
from ddwatch.commands.sglang_address import Narrator, add_key_argument, key_of, url_of
from ddwatch.core.exits import CommandFailed, Exit

if TYPE_CHECKING:
    from ddwatch.core.records import Record
    from ddwatch.core.servers.found import FoundServer
    from ddwatch.core.snapshot import Snapshot
    from ddwatch.discovery.find import Found
    from ddwatch.probes.server import Facts
    from ddwatch.probes.surroundings import Sight, State

SCHEMA = "ddwatch.doctor/1"
PATIENCE_SECONDS = 10.0
SIGNS = {"seen": "✓", "partly": "!", "unseen": "✗", "absent": "·"}
PRIMARY = ("log", "step times", "sidecar")
"""With any of these ddwatch can judge."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("url", nargs="?", metavar="URL", help="SGLang's own address (that of a server that runs here)")
    parser.add_argument(
        "--log",
        metavar="PATH|…",
        help="the log that should be read, named as for `ddwatch --log` (that of the server that runs here)",
    )
    parser.add_argument("--sidecar", metavar="URL", help=f"a sidecar to look at ({DEFAULT_URL})")
    parser.add_argument("--token-file", metavar="FILE", help="the sidecar's token (else DDWATCH_TOKEN)")
    parser.add_argument("--bundle", metavar="FILE", help="write a scrubbed zip for a bug report")
    add_key_argument(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Looks and prints; 0 when something can be judged, 1 when only parts can, 3 when nothing can."""
    from ddwatch.probes import failures
    from ddwatch.probes.log_glance import log_glance
    from ddwatch.probes.port_sights import port_sights
    from ddwatch.probes.server import Server
    from ddwatch.probes.surroundings import Host

    place = None if arguments.log is None else place_named("doctor", arguments.log)
    given = None if arguments.url is None else url_of("doctor", arguments.url)
    sidecar = url_of("doctor", arguments.sidecar or sidecar_url())
    key = key_of("doctor", arguments.sglang_key_file)
    narrator = Narrator()
    narrator.say("looking around")
    running = look()
    examined = looked_into(running, given)
    url = given or (examined.url if examined is not None else None) or failures.DEFAULT_URL
    server = Server(url, key=key, patience=PATIENCE_SECONDS, digest_key=os.urandom(32))
    host = Host()
    records: list[Record] = []
    try:
        sights, facts, _ = port_sights(server)
    finally:
        server.close()
    if place is None and examined is not None and examined.log.source is not None:
        place = place_named("doctor", examined.log.source)
    if place is not None:
        sight, records = log_glance(place, host)
        sights.append(sight)
    sights += server_sights(running, examined)
    seen, snapshot = sidecar_sights(sidecar, arguments.token_file, examined)
    sights += seen
    sights += [
        host.journal(),
        host.containers(),
        host.gpus(),
        host.kernel_log(),
        profile_sight(facts, url),
        state_sight(),
    ]
    narrator.clear()
    code = code_of(sights)
    document = report(sights, code, running)
    if arguments.bundle is not None:
        from ddwatch.commands.doctor_bundle import write_bundle

        write_bundle(Path(arguments.bundle), document, facts, records, snapshot)
    if arguments.json:
        import msgspec

        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    else:
        write_text(sights, code, arguments.bundle)
    return code


def sidecar_sights(
    url: str, token_file: str | None, examined: "FoundServer | None"
) -> "tuple[list[Sight], Snapshot | None]":
    """Whether a sidecar runs, and how its sources do."""
    from ddwatch.commands.live import token_of
    from ddwatch.commands.once import fetch
    from ddwatch.probes.surroundings import Sight

    token = token_of(token_file)
    try:
        snapshot, _ = fetch(url, token)
    except CommandFailed as failed:
        detail = failed.sentence.removeprefix("ddwatch: ")
        command = "ddwatch sidecar --log PATH" if examined is None else sidecar_command(examined)
        return [Sight(name="sidecar", state="unseen", source=url, detail=detail, command=command)], None
    detail = f"ddwatch {snapshot.ddwatch_version or '–'}, verdict {snapshot.verdict.name}"
    found = [Sight(name="sidecar", state="seen", source=url, detail=detail)]
    states: dict[str, State] = {"up": "seen", "waiting": "partly", "lost": "unseen"}
    found += [
        Sight(name=f"source {one.name}", state=states[one.state], source=url, detail=one.detail or one.state)
        for one in snapshot.sources
    ]
    return found, snapshot


def profile_sight(facts: "Facts | None", url: str) -> "Sight":
    """Whether there is something to judge by."""
    from ddwatch.commands.check import fitting
    from ddwatch.probes.surroundings import Sight

    command = f"ddwatch calibrate {url} -o FILE"
    if facts is None:
        detail = "which profile holds is known once the server answers"
        return Sight(name="profile", state="partly", source="profiles", detail=detail)
    found = fitting(facts)
    if found is None:
        detail = "no profile is about this service: it will be learned while it runs"
        return Sight(name="profile", state="partly", source="profiles", detail=detail, command=command)
    if not found.calibrated:
        detail = f"{found.name}, not calibrated: it explains and never accuses"
        return Sight(name="profile", state="partly", source="profiles", detail=detail, command=command)
    return Sight(name="profile", state="seen", source="profiles", detail=found.name)


def state_sight() -> "Sight":
    """Whether what is learned can be kept."""
    from ddwatch.probes.surroundings import Sight
    from ddwatch.profiles.shelf import learning_folder

    folder = learning_folder()
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if os.access(nearest, os.W_OK):
        return Sight(name="memory", state="seen", source=str(folder), detail="what is learned is kept here")
    return Sight(
        name="memory",
        state="unseen",
        source=str(folder),
        detail=f"{nearest} cannot be written: nothing learned survives a restart",
        command=f"sudo chown -R $USER {nearest}",
    )


def code_of(sights: "Sequence[Sight]") -> Exit:
    """0 when something that judges is seen whole, 1 when only in part, 3 when nothing is."""
    primary = [sight.state for sight in sights if sight.name in PRIMARY]
    if "seen" in primary:
        return Exit.OK
    return Exit.NOTICE if "partly" in primary else Exit.UNJUDGED


def sentence_of(code: Exit) -> str:
    """The whole in one sentence."""
    if code == Exit.OK:
        return "ddwatch can judge this service; each line with an arrow would show more"
    if code == Exit.NOTICE:
        return "ddwatch sees something of this service; the arrows say what it needs to judge"
    return "ddwatch sees nothing of a service here; the arrows say what it needs"


def report(sights: "Sequence[Sight]", code: Exit, running: "Found") -> dict[str, Any]:
    """The JSON document."""
    import msgspec

    document = {
        "schema": SCHEMA,
        "sentence": sentence_of(code),
        "sights": [
            {
                "name": sight.name,
                "state": sight.state,
                "source": sight.source,
                "detail": sight.detail,
                "command": sight.command,
            }
            for sight in sights
        ],
        "servers": [msgspec.to_builtins(server) for server in running.servers],
    }
    return {key: as_text(value) for key, value in document.items()}


def as_text(value: Any) -> Any:
    """A value whose texts are text: a name of a file may be any bytes."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: as_text(inner) for key, inner in value.items()}
    return [as_text(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def write_text(sights: "Sequence[Sight]", code: Exit, bundle: str | None) -> None:
    """The sentence, then a line per sight with the command that gives more."""
    from ddwatch.commands.check import wrapped
    from ddwatch.core.expectation.wording import readable
    from ddwatch.profiles.shelf import shown

    width = min(max(len(sight.name) for sight in sights), 20)
    lines = [sentence_of(code), ""]
    for sight in sights:
        first, *rest = wrapped(shown(sight.detail), 75 - width)
        lines.append(f"  {SIGNS[sight.state]} {sight.name[:20]:<{width}}  {first}")
        lines += [f"    {'':<{width}}  {part}" for part in rest]
        if sight.command is not None:
            lines.append(f"    {'':<{width}}  → {shown(sight.command)}")
    if bundle is not None:
        lines += ["", f"scrubbed bundle written to {shown(bundle)}: look into it before you send it"]
    sys.stdout.write(readable("\n".join(lines) + "\n", sys.stdout.encoding))
