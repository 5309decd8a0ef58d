"""Places a replayed log on the timeline: stamps without zone, without date, without year, or none at all."""

import re
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo

from ddwatch.core.records import Rank, ServerStart

DATED = re.compile(r"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(\.\d{1,9})?$")
TIMED = re.compile(r"(\d\d):(\d\d):(\d\d)(\.\d{1,9})?$")
SYSLOG = re.compile(r"([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d)$")
MONTHS = {
    name: number
    for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), start=1)  # noqa: SIM905
}

DAY = 86_400.0
BACKWARDS_SECONDS = 60.0
"""Lines of several processes may be this much out of order; a larger step back is a clock that was set."""
MIDNIGHT_SECONDS = 7200.0
"""A time of day that is earlier by more than this is the next day's; less is a clock that was set, as at the end of
summer time."""
LONGEST_WINDOW = 3600.0
"""An estimated window is never longer."""
RANK_LIMIT = 1024
DEFAULT_INTERVAL = 40
"""SGLang's --decode-log-interval when nobody says otherwise."""


class Placement:
    """Where the lines of one stream stand in time; `last` never falls by more than lines are out of order."""

    __slots__ = (
        "_base",
        "_clocks",
        "_minutes",
        "_offset",
        "_zone",
        "interval",
        "last",
        "placed",
        "placed_at",
        "stamped",
    )

    def __init__(self, zone: tzinfo | None, base: float) -> None:
        self._zone = zone
        self._base = base
        self._minutes: dict[str, float] = {}
        self._offset = 0.0
        self.placed: str | None = None
        """The stamp that was placed last, while nothing else has been placed since; `placed_at` is where."""
        self.placed_at = base
        self._clocks: dict[Rank, _Window] = {}
        self.last = base
        """Newest place so far."""
        self.stamped = False
        """Whether any line had a time."""
        self.interval = DEFAULT_INTERVAL

    def zoned(self, seconds: float) -> float:
        """Places a stamp that came with its offset."""
        return self._settle(seconds)

    def stamp(self, stamp: str) -> float:
        """Places a stamp as records carry it; one that is no valid time stays where the last line was."""
        if stamp == self.placed:
            return self.placed_at
        at = self._stamp(stamp)
        self.placed, self.placed_at = stamp, at
        return at

    def _stamp(self, stamp: str) -> float:
        # The zone's offset only ever changes on a full minute, so a minute is looked up once.
        minute = self._minutes.get(stamp[:16]) if len(stamp) >= 19 and stamp[4] == "-" else None
        if minute is not None:
            try:
                return self._settle(minute + float(stamp[17:]))
            except ValueError:
                return self.last
        try:
            seconds = self._seconds(stamp)
        except (ValueError, OverflowError):
            return self.last
        return self.last if seconds is None else self._settle(seconds)

    def _settle(self, seconds: float) -> float:
        """Continues the timeline across a clock that was set back; takes the stamp itself wherever it can."""
        self.placed = None
        if not self.stamped:
            self.stamped = True
            self.last = seconds
            return seconds
        if self._offset and seconds >= self.last:
            self._offset = 0.0
        at = seconds + self._offset
        if at < self.last - BACKWARDS_SECONDS:
            self._offset = self.last - seconds
            at = self.last
        if at > self.last:
            self.last = at
        return at

    def _seconds(self, stamp: str) -> float | None:
        """Epoch seconds of a stamp, before the timeline is continued."""
        if (dated := DATED.match(stamp)) is not None:
            year, month, day, hour, minute, second = (int(dated[index]) for index in range(1, 7))
            start = self._local(datetime(year, month, day, hour, minute, tzinfo=self._zone))
            if len(self._minutes) > 512:
                self._minutes.clear()
            self._minutes[stamp[:16]] = start
            return start + second + float(dated[7] or 0.0)
        if (timed := TIMED.match(stamp)) is not None:
            hour, minute, second = (int(timed[index]) for index in range(1, 4))
            return self._today(hour, minute, second + float(timed[4] or 0.0))
        if (syslog := SYSLOG.match(stamp)) is not None:
            day, hour, minute, second = (int(syslog[index]) for index in range(2, 6))
            return self._this_year(MONTHS.get(syslog[1], 0), day, hour, minute, second)
        return None

    def _today(self, hour: int, minute: int, second: float) -> float:
        """The moment of this time of day that is nearest to where the timeline stands."""
        reference = datetime.fromtimestamp(self.last, self._zone)
        start = reference.replace(hour=hour, minute=minute, second=0, microsecond=0, fold=0)
        seconds = self._local(start) + second
        # Well back is midnight passed; nearly a day ahead is a late line from before it.
        if self.stamped and seconds < self.last - MIDNIGHT_SECONDS:
            return self._local(start + timedelta(days=1)) + second
        if self.stamped and seconds > self.last + DAY - BACKWARDS_SECONDS:
            return self._local(start - timedelta(days=1)) + second
        return seconds

    def _this_year(self, month: int, day: int, hour: int, minute: int, second: int) -> float | None:
        """The moment of this date without year that is nearest to where the timeline stands."""
        year = datetime.fromtimestamp(self.last, self._zone).year
        found = []
        for candidate in (year - 1, year, year + 1):
            # The 29th of February exists in some of these years only.
            with suppress(ValueError):
                start = datetime(candidate, month, day, hour, minute, tzinfo=self._zone)
                found.append(self._local(start) + second)
        return min(found, key=lambda seconds: abs(seconds - self.last)) if found else None

    def _local(self, moment: datetime) -> float:
        """Epoch seconds of a local time; an hour that comes twice is taken as the one the timeline has reached."""
        first = moment.replace(fold=0).timestamp()
        if not self.stamped or first >= self.last - 2 * BACKWARDS_SECONDS:
            return first
        second = moment.replace(fold=1).timestamp()
        return second if second > first else first

    def estimate(
        self, rank: Rank, running: int | None, tokens: int | None, accept: float | None, rate: float | None
    ) -> float:
        """Places a decode line of a log without times: one window after the previous line of its rank."""
        window = self._clocks.get(rank)
        if window is None:
            if len(self._clocks) >= RANK_LIMIT:
                self._clocks.clear()
            window = self._clocks[rank] = _Window(self.last)
        else:
            window.at += min(LONGEST_WINDOW, window.seconds(running, tokens, accept, rate, self.interval))
        window.running = running
        window.tokens = tokens
        window.mixed = False
        self.last = max(self.last, window.at)
        return window.at

    def started(self, start: ServerStart) -> None:
        """The arguments say how many decode steps one line stands for."""
        interval = start.arguments.get("decode_log_interval")
        self.interval = interval if isinstance(interval, int) and interval > 0 else DEFAULT_INTERVAL
        self._clocks.clear()

    def prefill(self, rank: Rank) -> None:
        """A prefill moves `#token`: the next window is not read from it."""
        window = self._clocks.get(rank)
        if window is not None:
            window.mixed = True


class _Window:
    """The previous decode line of one rank in a log without times."""

    __slots__ = ("at", "mixed", "running", "tokens")

    def __init__(self, at: float) -> None:
        self.at = at
        self.running: int | None = None
        self.tokens: int | None = None
        self.mixed = False

    def seconds(
        self, running: int | None, tokens: int | None, accept: float | None, rate: float | None, interval: int
    ) -> float:
        """Tokens of the window over their rate; 0.0 when the line has no rate."""
        if not rate or rate <= 0:
            return 0.0
        grown = (tokens or 0) - (self.tokens or 0)
        if self.tokens and running == self.running and not self.mixed and grown > 0:
            return grown / rate
        return (running or 1) * (accept or 1.0) * interval / rate
