"""Hours of the day in which only what must wake someone is told."""

import re
from datetime import datetime, time, tzinfo
from typing import NamedTuple

HOURS = re.compile(r"(\d\d):(\d\d)-(\d\d):(\d\d)")


class Quiet(NamedTuple):
    """Hours of each day in which only pages are sent; they may run over midnight."""

    begin: time
    end: time

    def holds(self, at: float, zone: tzinfo | None) -> bool:
        """Whether a moment lies in them; `zone` None is this host's."""
        clock = datetime.fromtimestamp(at, zone).time()
        if self.begin <= self.end:
            return self.begin <= clock < self.end
        return clock >= self.begin or clock < self.end


def quiet_hours(words: str) -> Quiet:
    """Reads `22:00-07:00`; raises ValueError with a phrase."""
    found = HOURS.fullmatch(words.strip())
    try:
        if found is None:
            raise ValueError(words)
        begin, end = time(int(found[1]), int(found[2])), time(int(found[3]), int(found[4]))
    except ValueError:
        raise ValueError("must be hours like 22:00-07:00") from None
    if begin == end:
        raise ValueError("must begin and end at different times")
    return Quiet(begin, end)
