"""Reads what stands before a message: time, ranks, source file, level, and what containers and runners add.

One lenient reader for every logging set-up seen: SGLang's own bracket (any version, also cut at its start),
custom logging configurations, Ray, docker compose, podman, kubectl, journald and the kernel.
"""

import re
from datetime import datetime
from typing import NamedTuple

from ddwatch.core.grammar.text import clean
from ddwatch.core.records import NO_RANK, Rank

LEVELS = "DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL"

WORD = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)$"
    r"|(?P<time>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)$"
    r"|(?P<zoned>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)$"
    r"|(?P<rank>[A-Z][A-Z_]{0,10})(?P<number>\d{1,6})$"
    r"|[\w./<>-]{1,120}\.py:\d+$"
    rf"|(?:{LEVELS})$"
    r"|\d{1,10}$"
)
"""One word of a prefix bracket."""

BRACKET = re.compile(r"\[([^\[\]]{1,160})\](?: ?: ?)? *")
LOST_BRACKET = re.compile(
    r"(?:(?:(\d{4}-\d\d-\d\d) )?(\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)|[\d:.,-]{0,12}(?: [\d:.,]{0,12})?)"
    r"((?:(?:^| )[A-Z][A-Z_]{0,10}\d{1,6}){0,8})\] "
)
BARE_STAMP = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?: +|$)(?:- +)?")
ZONED_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d) +")
SYSLOG = re.compile(
    r"(?:[A-Z][a-z]{2} )?([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)(?:\.\d{1,9})? "
    r"[\w.-]{1,64} [^\s:\[\]]{1,64}(?:\[\d+\])?: "
)
JOURNAL_FULL = re.compile(
    r"[A-Z][a-z]{2} (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.\d{1,9})? \S{1,8} "
    r"[\w.-]{1,64} [^\s:\[\]]{1,64}(?:\[\d+\])?: "
)
HOST = re.compile(r"[\w.-]{1,64} [\w./@-]{1,64}(?:\[\d+\])?: ")
LEVEL = re.compile(rf"(?:{LEVELS})(?::[\w.]{{1,80}}:|: *| +- +| +)")
NAME = re.compile(rf"[\w.]{{1,80}} - (?=(?:{LEVELS})\b)")
PID = re.compile(r"\d{1,10} +(?=\[)")
KERNEL = re.compile(r"\[ *\d{1,10}\.\d{6}\] ?")
KERNEL_TIME = re.compile(r"\[[A-Z][a-z]{2} ([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) \d{4}\] ")

RAY = re.compile(r"\(([A-Za-z_][\w.:]{0,63} (?:pid|PID)=\d{1,10}(?:, ip=[\w.:]{1,64})?)\) ?")
COMPOSE = re.compile(r"([A-Za-z0-9][\w.-]{0,63}) *\| ?")
BRACKETED = re.compile(r"\[((?=[^\]]*\] *\|)[A-Za-z0-9][\w.-]{0,63}|pod/[\w.-]{1,128}/[\w.-]{1,64})\] *(?:\| ?)?")
"""Podman's `[name] | `, and `kubectl logs --prefix`."""

RANKS = {"DP": "dp", "TP": "tp", "PP": "pp", "EP": "ep"}


class Prefix(NamedTuple):
    """What a line says before its message."""

    stamp: str | None
    """As records carry it (`YYYY-MM-DD HH:MM:SS[.mmm]` or `HH:MM:SS`), or syslog's `Mon DD HH:MM:SS`."""
    outer: float | None
    """Seconds since the epoch from a stamp with offset, put there by what carried the line."""
    rank: Rank
    message: str
    own: bool
    """Whether a prefix of a logger (not of a container) was there: the line begins a record."""


def zoned_epoch(text: str) -> float | None:
    """Seconds since the epoch of an RFC 3339 time with offset; None when it is no valid time."""
    found = ZONED_STAMP.match(text + " ")
    if found is None:
        return None
    date, time, fraction, offset = found.groups()
    offset = "+00:00" if offset == "Z" else offset if ":" in offset else offset[:3] + ":" + offset[3:]
    try:
        seconds = datetime.fromisoformat(f"{date}T{time}{offset}").timestamp()
    except ValueError:
        return None
    return seconds + (float("0." + fraction) if fraction else 0.0)


def stamp_of(date: str | None, time: str) -> str:
    """A stamp in the words of the records: at most milliseconds, after a dot."""
    time = time.replace(",", ".")[:12]
    return f"{date} {time}" if date else time


class Scan:
    """One pass over the start of a line; collects what it finds."""

    __slots__ = ("engine", "outer", "own", "position", "ranks", "stamp", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.stamp: str | None = None
        self.outer: float | None = None
        self.ranks: dict[str, int] = {}
        self.engine: str | None = None
        self.own = False

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Consumes what the pattern matches here."""
        found = pattern.match(self.text, self.position)
        if found is not None:
            self.position = found.end()
        return found

    def bracket(self) -> bool:
        """Consumes `[...]` when each of its words is one that loggers put there."""
        found = BRACKET.match(self.text, self.position)
        if found is None:
            return False
        date = time = None
        ranks = {}
        for word in found[1].split():
            known = WORD.match(word)
            if known is None:
                if date is None or time is None:
                    return False
                continue
            date = known["date"] or date
            time = known["time"] or time
            if known["zoned"]:
                date, _, time = known["zoned"].rstrip("Z").partition("T")
                time = time[:8]
            if known["rank"] in RANKS:
                ranks[RANKS[known["rank"]]] = int(known["number"])
        if time is not None:
            self.stamp = stamp_of(date, time)
        self.ranks.update(ranks)
        self.position = found.end()
        self.own = True
        return True

    def carriers(self) -> None:
        """Consumes what containers, runners and journals put before a line."""
        for _ in range(4):
            while self.text.startswith((" ", "\t"), self.position):
                self.position += 1
            first = self.text[self.position : self.position + 1]
            if first == "(":
                named = self.take(RAY)
            elif first == "[":
                named = self.take(BRACKETED) if "] " in self.text[self.position : self.position + 200] else None
            else:
                named = self.take(COMPOSE) if "|" in self.text[self.position : self.position + 100] else None
            if named is not None:
                self.engine = clean(named[1], 100)
            elif not self.journals(first):
                return

    def journals(self, first: str) -> bool:
        """Consumes a time that a container runtime or a journal put there, and who spoke."""
        if first.isdigit():
            found = self.take(ZONED_STAMP)
            if found is None:
                return False
            self.outer = zoned_epoch(found[0].rstrip())
            if self.outer is not None:
                self.stamp = stamp_of(found[1], found[2])
                self.take(HOST)
            return True
        if not first.isupper():
            return False
        if (found := self.take(SYSLOG)) is not None:
            self.stamp = found[1]
            return True
        if (found := self.take(JOURNAL_FULL)) is not None:
            self.stamp = stamp_of(found[1], found[2])
            return True
        return False

    def loggers(self) -> None:
        """Consumes what a logger put before its message."""
        if self.text.startswith("[", self.position):
            if self.take(KERNEL) is not None:
                return
            if (found := self.take(KERNEL_TIME)) is not None:
                self.stamp = found[1]
                return
        elif (found := self.take(LOST_BRACKET)) is not None:
            if found[2]:
                self.stamp = stamp_of(found[1], found[2])
            for word in found[3].split():
                known = WORD.match(word)
                if known is not None and known["rank"] in RANKS:
                    self.ranks[RANKS[known["rank"]]] = int(known["number"])
            self.own = True
            return
        for _ in range(6):
            first = self.text[self.position : self.position + 1]
            if first == "[":
                if not self.bracket():
                    return
            elif first.isdigit():
                if (found := self.take(BARE_STAMP)) is None:
                    return
                self.stamp = stamp_of(found[1], found[2])
                self.own = True
                self.take(NAME)
            elif first.isupper() and self.take(LEVEL) is not None:
                self.own = True
                self.take(PID)
            else:
                return


def read_prefix(text: str) -> Prefix:
    """Splits a line into prefix and message; a line without any prefix is all message."""
    scan = Scan(text)
    scan.carriers()
    scan.loggers()
    rank = NO_RANK if scan.engine is None and not scan.ranks else Rank(engine=scan.engine, **scan.ranks)
    return Prefix(scan.stamp, scan.outer, rank, text[scan.position :].strip(" \t"), scan.own)
