"""`ddwatch check [URL]`: whether a server is up, really generates, and is as fast as it should be."""

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from ddwatch.commands.sglang_address import Narrator, add_key_argument, key_of, url_of
from ddwatch.core.exits import CommandFailed, Exit

if TYPE_CHECKING:
    from ddwatch.core.expectation.profile import Profile
    from ddwatch.core.snapshot import Snapshot
    from ddwatch.probes.failures import ProbeFailed
    from ddwatch.probes.findings import Conclusion, Finding
    from ddwatch.probes.server import Facts, Server

SCHEMA = "ddwatch.check/1"
DEFAULT_SIDECAR = "http://127.0.0.1:9477"
PATIENCE_SECONDS = 20.0
LONGEST_IDLE = 3600.0
SIGNS = {"pass": "✓", "warn": "!", "fail": "✗", "unknown": "?"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("url", nargs="?", metavar="URL", help="SGLang's own address (http://127.0.0.1:30000)")
    parser.add_argument("--profile", metavar="P", help="name or file (default: the newest one of the same service)")
    parser.add_argument("--after-idle", type=float, metavar="N", help="measure once more after N seconds of idling")
    parser.add_argument(
        "--sidecar", metavar="URL", help=f"a sidecar to ask when the server is busy ({DEFAULT_SIDECAR})"
    )
    parser.add_argument("--token-file", metavar="FILE", help="the sidecar's token (else DDWATCH_TOKEN)")
    parser.add_argument(
        "--assume-idle", action="store_true", help="go on where nobody can see whether others use the server"
    )
    add_key_argument(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Checks and prints; 0 fine, 1 worth a look, 2 page someone, 3 cannot judge."""
    from ddwatch.probes.failures import DEFAULT_URL, ProbeFailed
    from ddwatch.probes.findings import Finding, conclude
    from ddwatch.probes.server import Server
    from ddwatch.probes.setup import Starts

    if arguments.after_idle is not None and not 0.0 < arguments.after_idle <= LONGEST_IDLE:
        raise CommandFailed(f"ddwatch check: --after-idle is more than 0 and at most {LONGEST_IDLE:g} s", Exit.USAGE)
    url = url_of("check", arguments.url or DEFAULT_URL)
    key = key_of("check", arguments.sglang_key_file)
    given = load_profile(arguments.profile)
    starts = Starts()
    server = Server(url, key=key, patience=PATIENCE_SECONDS, digest_key=starts.digest_key())
    narrator = Narrator()
    findings: list[Finding] = []
    profile = given
    interrupted = False
    try:
        facts = server.facts()
        model = server.model()
        profile = given if given is not None else fitting(facts)
        findings += setup_of(starts, url, facts, profile)
        profile = judging(profile, findings)
        examine(arguments, server, facts, model, profile, narrator, findings)
    except ProbeFailed as failed:
        if failed.kind in ("down", "hung"):
            findings.append(lost(failed, begun=bool(findings)))
        else:
            raise CommandFailed(f"ddwatch check: {failed.sentence}") from failed
    except KeyboardInterrupt:
        if not findings:
            raise
        interrupted = True
        findings.append(
            Finding(name="interrupted", status="unknown", detail="the rest was not looked at", verdict="blind")
        )
    finally:
        narrator.clear()
        server.close()
    conclusion = conclude(findings)
    if arguments.json:
        write_json(url, profile, findings, conclusion)
    else:
        write_text(url, findings, conclusion)
    return Exit.INTERRUPTED if interrupted else conclusion.code


def load_profile(wanted: str | None) -> "Profile | None":
    """The profile that was asked for; raises CommandFailed when it cannot be used."""
    from ddwatch.profiles.shelf import Shelf

    return None if wanted is None else Shelf().load(wanted)


def fitting(facts: "Facts") -> "Profile | None":
    """The newest profile of the same service, the built-in ones last; None where no profile is about it."""
    from ddwatch.core.expectation.identity import identity_differences, identity_of
    from ddwatch.core.expectation.profile import Profile
    from ddwatch.profiles.shelf import Shelf

    shelf = Shelf()
    identity = identity_of(facts.arguments)
    for entry in shelf.entries():
        try:
            found = shelf.read(entry)
        except CommandFailed:
            continue
        if isinstance(found, Profile) and found.identity.model and not identity_differences(found.identity, identity):
            return found
    return None


def judging(profile: "Profile | None", findings: "Sequence[Finding]") -> "Profile | None":
    """The profile, unless it turned out to be about another service."""
    other = any(one.name == "profile" and one.verdict is not None for one in findings)
    return None if other else profile


def setup_of(starts: Any, url: str, facts: "Facts", profile: "Profile | None") -> "list[Finding]":
    """What can be said without a request; remembers this start for the next check."""
    from ddwatch.probes.findings import Finding
    from ddwatch.probes.setup import Start, against_profile, against_start

    what = f"{facts.arguments.get('model_path')}, SGLang {facts.version or '–'}"
    findings = [Finding(name="server", status="pass", detail=what), *against_profile(profile, facts, url)]
    findings.append(against_start(starts.recall(url), facts))
    at = datetime.fromtimestamp(time.time(), timezone.utc).isoformat(timespec="seconds")
    start = Start(url=url, at=at, version=facts.version, arguments=facts.arguments, withheld=facts.withheld)
    problem = starts.remember(start)
    if problem is not None:
        findings.append(
            Finding(
                name="memory", status="warn", detail=f"this start cannot be remembered for the next check: {problem}"
            )
        )
    return findings


def examine(
    arguments: argparse.Namespace,
    server: "Server",
    facts: "Facts",
    model: str,
    profile: "Profile | None",
    narrator: Narrator,
    findings: "list[Finding]",
) -> None:
    """Everything that looks at speed; findings are added as they come."""
    from ddwatch.probes.examination import Examination, passive
    from ddwatch.probes.findings import Finding

    examination = Examination(
        server,
        facts,
        profile=profile,
        wall=time.monotonic,
        wait=time.sleep,
        say=narrator.say,
        assume_idle=arguments.assume_idle,
    )
    examination.findings = findings
    if examination.idle():
        examination.active(model, arguments.after_idle)
    if not any(one.name == "traffic" and one.verdict == "blind" for one in findings):
        return
    snapshot = seen_passively(arguments, server.url)
    if snapshot is not None:
        # What was seen passively speaks in place of what could not be tried.
        findings[:] = [
            Finding(name=one.name, status=one.status, detail=one.detail, fix=None) if one.name == "traffic" else one
            for one in findings
        ]
        findings += passive(snapshot)
    findings += [
        Finding(name=name, status="unknown", detail="needs an idle server")
        for name in ("generates", "warm-up", "decode", "parsers")
        if not any(one.name.startswith(name) for one in findings)
    ]


def seen_passively(arguments: argparse.Namespace, url: str) -> "Snapshot | None":
    """A sidecar's snapshot of this server; None where none was named and none of this server is on this machine."""
    from urllib.parse import urlsplit

    from ddwatch.commands.live import token_of
    from ddwatch.commands.once import fetch

    token = token_of(arguments.token_file)
    if arguments.sidecar is not None:
        return fetch(url_of("check", arguments.sidecar), token)[0]
    try:
        snapshot = fetch(DEFAULT_SIDECAR, token)[0]
    except CommandFailed:
        return None
    address = snapshot.server.address or ""
    return snapshot if address.rpartition(":")[2] == str(urlsplit(url).port) else None


def lost(failed: "ProbeFailed", *, begun: bool) -> "Finding":
    """The server is not there, or not any more."""
    from ddwatch.probes.findings import Finding

    if failed.kind == "hung":
        name = "generates" if begun else "server"
        return Finding(
            name=name, status="fail", detail=failed.sentence, fix="look at the end of its log", verdict="stalled"
        )
    return Finding(
        name="server", status="fail", detail=failed.sentence, fix="look at the end of its log", verdict="down"
    )


def write_json(url: str, profile: "Profile | None", findings: "Sequence[Finding]", conclusion: "Conclusion") -> None:
    """One document on stdout."""
    import msgspec

    document = {
        "schema": SCHEMA,
        "url": url,
        "profile": None if profile is None else profile.name,
        "verdict": conclusion.verdict,
        "sentence": conclusion.sentence,
        "checks": [
            {
                "name": one.name,
                "status": one.status,
                "measured": one.measured,
                "expected": one.expected,
                "detail": one.detail,
                "fix": one.fix,
            }
            for one in findings
        ],
    }
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")


def write_text(url: str, findings: "Sequence[Finding]", conclusion: "Conclusion") -> None:
    """The sentence, then the table."""
    from ddwatch.core.expectation.wording import readable
    from ddwatch.profiles.shelf import shown

    sign = {Exit.OK: "✓", Exit.NOTICE: "!", Exit.PAGE: "✗"}.get(conclusion.code, "?")
    width = max(len(one.name) for one in findings)
    lines = [f"{sign} {conclusion.verdict.replace('-', ' ')} · {shown(conclusion.sentence)}", f"  {url}", ""]
    for one in findings:
        facts = [part for part in (one.measured, f"expected {one.expected}" if one.expected else None) if part]
        told = [facts[0], *wrapped(" · ".join([*facts[1:], one.detail]), 74 - width)] if facts else []
        told = told or wrapped(one.detail, 74 - width)
        lines.append(f"  {SIGNS[one.status]} {one.name:<{width}}  {shown(told[0])}")
        lines += [f"    {'':<{width}}  {shown(part)}" for part in told[1:]]
        if one.fix is not None and one.status != "pass":
            lines += [f"    {'':<{width}}  {part}" for part in wrapped(f"→ {shown(one.fix)}", 74 - width)]
    sys.stdout.write(readable("\n".join(lines) + "\n", sys.stdout.encoding))


def wrapped(text: str, width: int) -> list[str]:
    """Text in lines of at most so many columns; none for no text."""
    import textwrap

    return textwrap.wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False) if text else []
