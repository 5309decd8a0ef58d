"""A server that is at work: decode lines in a genuine format, stamped now, as long as a test asks for more."""

from datetime import datetime, timezone
from pathlib import Path

from tests.fakes.log_writer import LogWriter


class LiveLog(LogWriter):
    """Each line has a little more context than the one before."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.count = 0
        """Decode lines written so far."""

    def work(self, throughput: float = 32.2, lines: int = 1) -> bool:
        """Writes decode lines; always true, so that it can stand in a condition that is asked again and again."""
        for _ in range(lines):
            self.count += 1
            self.line(
                f"[{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S} TP0] Decode batch, #running-req: 1, "
                f"#token: {5000 + self.count}, token usage: 0.01, accept len: 2.90, accept rate: 0.06, "
                f"cuda graph: True, gen throughput (token/s): {throughput:.2f}, #queue-req: 0"
            )
        return True
