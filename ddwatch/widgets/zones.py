"""The zone of this machine, for times that an operator compares with the clock on the wall."""

from datetime import datetime, timedelta, timezone, tzinfo


class LocalZone(tzinfo):
    """The operating system's own zone, with its change to and from daylight saving time."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        """The offset that holds here at a local time."""
        return None if moment is None else moment.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, moment: datetime | None) -> timedelta | None:
        """Part of the offset, not told apart."""
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        """The zone's name at a local time."""
        return None if moment is None else moment.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, moment: datetime) -> datetime:
        """A moment of UTC as local time."""
        return moment.replace(tzinfo=timezone.utc).astimezone().replace(tzinfo=self)
