"""Walks a parsed document key by key, and remembers every key that is missing, unknown or out of range."""

from collections.abc import Iterator, Mapping
from math import isfinite

from ddwatch.core.expectation.profile import Problem

MOST_ITEMS = 2048
"""Longest list that is read."""
LONGEST_TEXT = 2000


class Keys:
    """One table of the document; problems of all tables meet in one list."""

    def __init__(self, table: Mapping[str, object], path: str, problems: list[Problem]) -> None:
        self._table = table
        self._path = path
        self._problems = problems
        self._asked: set[str] = set()

    def path(self, key: str) -> str:
        """The key with the tables that it stands in."""
        return f"{self._path}.{key}" if self._path else key

    def problem(self, key: str, what: str) -> None:
        """Remembers what is wrong with a key."""
        self._problems.append(Problem(self.path(key) if key else self._path, what))

    def _value(self, key: str, required: bool) -> object | None:
        self._asked.add(key)
        value = self._table.get(key)
        if value is None and required:
            self.problem(key, "missing")
        return value

    def _number(
        self, key: str, value: object, least: float | None, above: float | None, most: float | None
    ) -> float | None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.problem(key, f"must be a number, not {kind_of(value)}")
            return None
        number = float(value)
        if not isfinite(number):
            self.problem(key, f"must be a finite number, not {value}")
        elif least is not None and number < least:
            self.problem(key, "must not be negative" if least == 0.0 else f"must not be below {least:g}")
        elif above is not None and number <= above:
            self.problem(key, "must be positive" if above == 0.0 else f"must be above {above:g}")
        elif most is not None and number > most:
            self.problem(key, f"must not be above {most:g}")
        else:
            return number
        return None

    def number(
        self,
        key: str,
        *,
        least: float | None = None,
        above: float | None = None,
        most: float | None = None,
        required: bool = False,
    ) -> float | None:
        """A finite number within bounds."""
        value = self._value(key, required)
        return None if value is None else self._number(key, value, least, above, most)

    def whole(self, key: str, *, least: int = 0, required: bool = False) -> int | None:
        """A whole number."""
        value = self._value(key, required)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.problem(key, f"must be a whole number, not {kind_of(value)}")
        elif value < least:
            self.problem(key, "must not be negative" if least == 0 else f"must not be below {least}")
        else:
            return value
        return None

    def text(self, key: str, *, required: bool = False) -> str | None:
        """A text of sane length without control characters."""
        value = self._value(key, required)
        if value is None:
            return None
        if not isinstance(value, str):
            self.problem(key, f"must be text, not {kind_of(value)}")
        elif len(value) > LONGEST_TEXT:
            self.problem(key, f"must not be longer than {LONGEST_TEXT} characters")
        elif any(not character.isprintable() for character in value):
            self.problem(key, "must not hold control characters")
        elif required and not value:
            self.problem(key, "must not be empty")
        else:
            return value
        return None

    def truth(self, key: str, *, required: bool = False) -> bool | None:
        """True or false."""
        value = self._value(key, required)
        if value is None or isinstance(value, bool):
            return value
        self.problem(key, f"must be true or false, not {kind_of(value)}")
        return None

    def numbers(
        self,
        key: str,
        *,
        least: float | None = None,
        above: float | None = None,
        required: bool = False,
        ascending: bool = False,
    ) -> tuple[float, ...] | None:
        """A list of finite numbers; None when any of them is wrong."""
        value = self._value(key, required)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) > MOST_ITEMS:
            self.problem(key, f"must be a list of at most {MOST_ITEMS} numbers")
            return None
        found = [self._number(f"{key}[{i}]", item, least, above, None) for i, item in enumerate(value)]
        good = [number for number in found if number is not None]
        if len(good) < len(found):
            return None
        for i in range(1, len(good)):
            if ascending and good[i] <= good[i - 1]:
                self.problem(f"{key}[{i}]", f"must be above the one before it ({good[i - 1]:g})")
                return None
        return tuple(good)

    def table(self, key: str, *, required: bool = False) -> "Keys":
        """A sub-table; an empty one where it is missing."""
        value = self._value(key, required)
        if value is not None and not isinstance(value, dict):
            self.problem(key, f"must be a table, not {kind_of(value)}")
            value = None
        return Keys(value if isinstance(value, dict) else {}, self.path(key), self._problems)

    def tables(self, key: str) -> Iterator["Keys"]:
        """The sub-tables of a list of tables."""
        value = self._value(key, False)
        if value is None:
            return
        if not isinstance(value, list) or len(value) > MOST_ITEMS:
            self.problem(key, f"must be a list of at most {MOST_ITEMS} tables")
            return
        for i, item in enumerate(value):
            if isinstance(item, dict):
                yield Keys(item, self.path(f"{key}[{i}]"), self._problems)
            else:
                self.problem(f"{key}[{i}]", f"must be a table, not {kind_of(item)}")

    def scalars(self, prefix: str = "") -> dict[str, str | int | float | bool]:
        """All values of a free table."""
        found: dict[str, str | int | float | bool] = {}
        for key, value in self._table.items():
            self._asked.add(key)
            if isinstance(value, float) and not isfinite(value):
                self.problem(key, f"must be a finite number, not {value}")
            elif isinstance(value, str) and any(not character.isprintable() for character in value):
                self.problem(key, "must not hold control characters")
            elif isinstance(value, (str, int, float, bool)):
                found[prefix + key] = value
            else:
                self.problem(key, f"must be a plain value, not {kind_of(value)}")
        return found

    def holds(self, key: str) -> bool:
        """Whether the key is there at all."""
        return key in self._table

    def nothing_else(self) -> None:
        """Every key that was never asked for is a mistake: a typing error must not be taken for a default."""
        for key in self._table:
            if key not in self._asked:
                self.problem(printable(key), "is not a key of a profile")


def printable(text: str) -> str:
    """A key as it may be shown: no control characters, no great length."""
    return "".join(character if character.isprintable() else "?" for character in text[:80])


def kind_of(value: object) -> str:
    """What a value is, in the operator's words."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "text"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a table"
    return "a date" if value is not None else "nothing"
