"""A yes or no that changes only after the opposite has held for a while, so that nothing flickers at an edge."""


class Hysteresis:
    """Starts as no."""

    def __init__(self, seconds: float) -> None:
        """Prepares to follow a condition.

        Args:
            seconds: how long the opposite must hold without a break.
        """
        self._seconds = seconds
        self._opposite_since: float | None = None
        self.state = False

    def see(self, now: float, condition: bool) -> bool:
        """Takes the condition at a time and returns the state."""
        if condition == self.state:
            self._opposite_since = None
        elif self._opposite_since is None:
            self._opposite_since = now
        elif now - self._opposite_since >= self._seconds:
            self.state = condition
            self._opposite_since = None
        return self.state

    def reset(self) -> None:
        """Back to no, at once."""
        self.state = False
        self._opposite_since = None
